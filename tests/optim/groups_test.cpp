// Parameter groups, clipping by value, and the running mean of the weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "optim/optimizer.h"
#include "tests/optim/training_fixture.h"
#include "tests/refs/ref_file.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using tests::filled;
using tests::GivenParameter;
using tests::Training;

constexpr double kInf = std::numeric_limits<double>::infinity();

// Long enough that a part ends inside a block of the CPU's loops and in the middle of a task.
const std::vector<GivenParameter> kParameters{
    {"enc.conv.weight", Shape{50, 61}, ParamRegion::kCast, filled(50 * 61, 0, 1)},
    {"enc.conv.bias", Shape{7}, ParamRegion::kKept, filled(7, 1, 1)},
    {"head.weight", Shape{90, 201}, ParamRegion::kCast, filled(90 * 201, 2, 1)},
    {"head.bias", Shape{5}, ParamRegion::kKept, filled(5, 3, 1)}};

std::vector<std::vector<double>> gradients(std::uint32_t step) {
  std::vector<std::vector<double>> all;
  for (std::size_t i = 0; i < kParameters.size(); ++i)
    all.push_back(filled(static_cast<std::int64_t>(kParameters[i].values.size()),
                         100 + 10 * step + static_cast<std::uint32_t>(i), 2));
  return all;
}

OptimizerOptions with_kind(OptimizerKind kind) {
  OptimizerOptions options{.name = kind, .weight_decay = 0.1};
  if (kind == OptimizerKind::kSgd || kind == OptimizerKind::kRmsProp) options.momentum = 0.9;
  return options;
}

class OnEachDevice : public testing::TestWithParam<Device> {
 protected:
  Training training(const OptimizerOptions& options, double clip_value = 0, double max_norm = 0) const {
    return Training(
        {.device = GetParam(), .optimizer = options, .max_norm = max_norm, .clip_value = clip_value},
        kParameters);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, OnEachDevice, testing::Values(kReferenceDevice, kCpuDevice),
                         [](const auto& info) { return name(info.param); });

// Each parameter must move, bit for bit, as in a run whose optimizer has the group's constants throughout.
TEST_P(OnEachDevice, GroupEqualsAnOptimizerOfItsOwn) {
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW, OptimizerKind::kRmsProp}) {
    OptimizerOptions grouped = with_kind(kind);
    grouped.groups = {{.match = "*.bias", .weight_decay = 0}, {.match = "head", .lr_factor = 0.5}};
    OptimizerOptions no_decay = with_kind(kind);
    no_decay.weight_decay = 0;
    Training together = training(grouped), plain = training(with_kind(kind)), bias = training(no_decay),
             head = training(with_kind(kind));
    for (std::uint32_t step = 0; step < 3; ++step) {
      together.step(gradients(step), 0.25);
      plain.step(gradients(step), 0.25);
      bias.step(gradients(step), 0.25);
      head.step(gradients(step), 0.125);
    }
    EXPECT_EQ(together.master(0), plain.master(0));
    EXPECT_EQ(together.master(1), bias.master(1));
    EXPECT_EQ(together.master(2), head.master(2));
    EXPECT_EQ(together.master(3), head.master(3))
        << "the last match decides, and it has the optimizer's decay";
    EXPECT_NE(together.master(0), training(grouped).master(0));
  }
}

TEST_P(OnEachDevice, FactorZeroFreezes) {
  OptimizerOptions options = with_kind(OptimizerKind::kAdamW);
  options.groups = {{.match = "enc", .lr_factor = 0}};
  Training frozen = training(options);
  frozen.step(gradients(0), 0.1);
  EXPECT_EQ(frozen.master(0), training(options).master(0));
  EXPECT_NE(frozen.master(2), training(options).master(2));
}

TEST(OptimizerGroups, PatternWithoutMatchNamesTheNearest) {
  try {
    Training({.optimizer = {.groups = {{.match = "heads.bias"}}}}, kParameters);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_EQ(
        error.text(),
        "[optimizer] optimizer.groups matches nothing: got 'heads.bias', expected the name of a layer or "
        "parameter");
    EXPECT_EQ(error.hint(), "Did you mean 'head.bias'?");
  }
}

TEST(OptimizerGroups, AreReadFromTheJob) {
  OptimizerOptions o;
  parse_options(parse_yaml_text("name: rmsprop\nrho: 0.9\ncentered: true\n"
                                "groups: [{match: '*.bias', weight_decay: 0}, {match: head, lr_factor: 10}]\n"
                                "ema: {decay: 0.99}\n",
                                "job.yaml"),
                fields(o));
  EXPECT_EQ(o.name, OptimizerKind::kRmsProp);
  ASSERT_EQ(o.groups.size(), 2u);
  EXPECT_EQ(o.groups[0].weight_decay, 0);
  EXPECT_FALSE(o.groups[1].weight_decay.has_value());
  EXPECT_EQ(o.groups[1].lr_factor, 10);
  EXPECT_EQ(o.ema->decay, 0.99);
  EXPECT_TRUE(o.ema->warmup);
  EXPECT_THROW(parse_options(parse_yaml_text("groups: [{lr_factor: 1}]\n", "job.yaml"), fields(o)), Error);
}

// w = 0, sgd of lr 1: the step is minus the gradient as clipped. Norm of [3, 4] at 1 gives [0.6, 0.8].
TEST_P(OnEachDevice, ValueIsClippedAfterUnscalingAndTheNorm) {
  const auto step_of = [&](double max_norm, double clip_value, double scale) {
    Training t({.device = GetParam(),
                .optimizer = {.name = OptimizerKind::kSgd},
                .loss_scale = {.mode = LossScaleMode::kDynamic, .init = scale},
                .max_norm = max_norm,
                .clip_value = clip_value},
               {{"w", Shape{3}, ParamRegion::kKept, {0, 0, 0}}});
    t.step({{3, -4, 0}}, 1);
    return t.master(0);
  };
  for (const double scale : {1.0, 65536.0}) {
    EXPECT_EQ(step_of(0, 3.5, scale), (std::vector<double>{-3, 3.5, 0}));
    const std::vector<double> both = step_of(1, 0.75, scale);
    EXPECT_NEAR(both[0], -0.6, 1e-6);
    EXPECT_EQ(both[1], 0.75);
  }
}

// The mean starts at the weights, moves by 1 - decay towards them, and only on accepted steps.
TEST_P(OnEachDevice, RunningMeanFollowsAcceptedSteps) {
  OptimizerOptions options = with_kind(OptimizerKind::kSgd);
  options.ema = EmaOptions{.decay = 0.75, .warmup = false};
  Training t = training(options);
  const auto mean = [&] {
    const ParamSegment& segment = t.store().segments()[0];
    return ParamStore::view(segment, t.optimizer().ema().front().flat).to_values();
  };
  t.optimizer().reset_ema();
  EXPECT_EQ(mean(), t.master(0));
  std::vector<double> expected = t.master(0);
  for (std::uint32_t step = 0; step < 3; ++step) {
    t.step(gradients(step), 0.1);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += 0.25 * (t.master(0)[i] - expected[i]);
    for (std::size_t i = 0; i < expected.size(); i += 97) EXPECT_NEAR(mean()[i], expected[i], 1e-6);
  }
  const std::vector<double> before = mean();
  std::vector<std::vector<double>> bad = gradients(4);
  bad[2][5] = kInf;
  t.step(bad, 0.1);
  EXPECT_EQ(mean(), before) << "an overflow moves nothing";
  t.step(gradients(5), 0.1, std::nan(""));
  EXPECT_EQ(mean(), before) << "nor does a loss that is not finite";
}

}  // namespace
}  // namespace tandem

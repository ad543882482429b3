// One fused step: PyTorch's results over 20 steps, vectors V8, V10-V13 of amp.md 2.7 and 2.3 of medical.md,
// skipped steps, weights that no longer fit, and the rules of the options.
#include "optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/ops/elementwise.h"
#include "optim/schedule.h"
#include "tests/optim/reference_options.h"
#include "tests/optim/training_fixture.h"
#include "tests/refs/ref_file.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using tests::filled;
using tests::reference_options;
using tests::scalar;
using tests::Training;

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Target {
  const char* name;
  Device device;
  DType compute;
};
void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

class OnEachTarget : public testing::TestWithParam<Target> {
 protected:
  Training::Options options(const OptimizerOptions& optimizer, double init = 1, double max_norm = 0) const {
    return {.device = GetParam().device,
            .compute = GetParam().compute,
            .optimizer = optimizer,
            .loss_scale = {.mode = LossScaleMode::kDynamic, .init = init},
            .max_norm = max_norm};
  }
  bool is_reference() const { return GetParam().device == kReferenceDevice; }
};
INSTANTIATE_TEST_SUITE_P(Targets, OnEachTarget,
                         testing::Values(Target{"reference", kReferenceDevice, DType::kF32},
                                         Target{"cpu_F32", kCpuDevice, DType::kF32},
                                         Target{"cpu_F16", kCpuDevice, DType::kF16},
                                         Target{"cpu_BF16", kCpuDevice, DType::kBF16}),
                         [](const testing::TestParamInfo<Target>& info) {
                           return std::string(info.param.name);
                         });

// tests/refs/make_refs.py, optimizer_reference: the same names, constants and gradients.
constexpr int kSteps = 20;
constexpr std::int64_t kTotal = 25, kWarmup = 5;

void expect_relative(const std::vector<double>& got, const std::vector<double>& expected, double tolerance,
                     const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  double scale = 0;
  for (const double e : expected) scale = std::max(scale, std::abs(e));
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * scale) << what << " " << i;
}

TEST_P(OnEachTarget, EqualsPyTorchOver20ScheduledAndClippedSteps) {
  const tests::RefFile ref("optim.ref");
  const std::pair<const char*, ScheduleKind> schedules[] = {{"constant", ScheduleKind::kConstant},
                                                            {"poly", ScheduleKind::kPoly},
                                                            {"cosine", ScheduleKind::kCosine}};
  for (const char* name : {"sgd", "sgd_momentum_decay", "sgd_nesterov_decay", "adam", "adam_decay", "adamw",
                           "rmsprop", "rmsprop_momentum_decay", "rmsprop_centered"})
    for (const auto& [schedule_name, kind] : schedules) {
      const std::string prefix = std::string(name) + "/" + schedule_name + "/";
      const OptimizerOptions optimizer = reference_options(name);
      Training::Options setting = options(optimizer, 1024, 12);
      setting.channel_multiple = 8;
      Training training(setting, {{"fc.weight", Shape{4, 6}, ParamRegion::kCast, filled(24, 0, 1)},
                                  {"fc.bias", Shape{5}, ParamRegion::kKept, filled(5, 1, 1)}});
      const ScheduleOptions schedule{.name = kind, .warmup = kWarmup};
      for (int step = 0; step < kSteps; ++step) {
        const double bound = 8.0 / (1 << (step % 5));
        const auto stream = static_cast<std::uint32_t>(100 + 2 * step);
        const double lr = scheduled_lr(schedule, optimizer.lr, training.state().applied, kTotal);
        training.step({filled(24, stream, bound), filled(5, stream + 1, bound)}, lr);
        const auto at = static_cast<std::size_t>(step);
        EXPECT_NEAR(lr, ref.values(prefix + "lr")[at], 1e-12) << prefix << step;
        EXPECT_NEAR(training.state().grad_norm / ref.values(prefix + "norm")[at], 1, 1e-6) << prefix << step;
      }
      expect_relative(training.master(0), ref.values(prefix + "weight"), 2e-6, prefix + "weight");
      expect_relative(training.master(1), ref.values(prefix + "bias"), 2e-6, prefix + "bias");
      EXPECT_EQ(training.state().applied, kSteps);
    }
}

// The channels that pad a segment stay zero through every optimizer, also with decay.
TEST_P(OnEachTarget, PaddingStaysZero) {
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW, OptimizerKind::kRmsProp}) {
    OptimizerOptions optimizer{.name = kind, .lr = 0.1, .weight_decay = 0.1};
    if (kind == OptimizerKind::kSgd || kind == OptimizerKind::kRmsProp) optimizer.momentum = 0.9;
    Training::Options setting = options(optimizer, 1024, 1);
    setting.channel_multiple = 8;
    Training training(setting, {{"w", Shape{3, 5}, ParamRegion::kCast, filled(15, 0, 1)}});
    for (int i = 0; i < 3; ++i) training.step({filled(15, 1, 1)}, 0.1);
    const FlatRegion& flat = training.store().region(ParamRegion::kCast);
    const std::vector<double> master = flat.master.to_values(), copy = flat.copy.to_values();
    int nonzero = 0;
    for (std::size_t i = 0; i < master.size(); ++i) nonzero += master[i] != 0 || copy[i] != 0;
    EXPECT_EQ(nonzero, 15);
  }
}

// medical.md 2.3: w = 1, g = 2 w, decay .01, lr .1, momentum .9.
TEST_P(OnEachTarget, NesterovVector) {
  Training training(
      options({.name = OptimizerKind::kSgd, .weight_decay = 0.01, .momentum = 0.9, .nesterov = true}, 1024),
      scalar(1));
  const double weights[] = {.6181, .21923761, -.1116510943}, buffers[] = {2.01, 3.051381, 3.1869104961};
  for (int i = 0; i < 3; ++i) {
    training.step({{2 * training.master(0)[0]}}, 0.1);
    EXPECT_NEAR(training.master(0)[0], weights[i], 4e-7);
    EXPECT_NEAR(training.moment(0, 0)[0], buffers[i], 1e-6);
  }
}

TEST_P(OnEachTarget, ClipOfNineAndTwelve) {
  Training training(options({.name = OptimizerKind::kSgd}, 1024, 12),
                    {{"w", Shape{1, 2}, ParamRegion::kCast, {0, 0}}});
  training.step({{9, 12}}, 1);
  EXPECT_NEAR(training.master(0)[0], -7.2, 2e-6);
  EXPECT_NEAR(training.master(0)[1], -9.6, 2e-6);
  EXPECT_EQ(training.state().grad_norm, 15);
}

// V8: the scale grows after every step; each step divides by the scale it was made with.
TEST_P(OnEachTarget, V8TheScaleIsLatched) {
  Training::Options setting = options({.name = OptimizerKind::kSgd}, 4);
  setting.loss_scale.growth_interval = 1;
  Training training(setting, scalar(3));
  std::vector<double> weights, scales;
  for (int i = 0; i < 3; ++i) {
    scales.push_back(training.state().scale);
    training.step({{1}}, 1);
    weights.push_back(training.master(0)[0]);
  }
  EXPECT_EQ(scales, (std::vector<double>{4, 8, 16}));
  EXPECT_EQ(weights, (std::vector<double>{2, 1, 0}));
}

// V11: the clip acts on the unscaled gradient.
TEST_P(OnEachTarget, V11ClipAfterUnscale) {
  Training training(options({.name = OptimizerKind::kSgd}, 1024, 1),
                    {{"w", Shape{1, 2}, ParamRegion::kCast, {0, 0}}});
  training.step({{3, 4}}, 1);
  EXPECT_NEAR(training.master(0)[0], -0.59999988, 1e-7);
  EXPECT_NEAR(training.master(0)[1], -0.79999984, 1e-7);
}

TEST_P(OnEachTarget, V12SgdSkip) {
  Training training(options({.name = OptimizerKind::kSgd, .momentum = 0.9}, 1024), scalar(1));
  const double gradients[] = {1, kInf, 1}, weights[] = {0.9, 0.9, 0.71}, buffers[] = {1, 1, 1.9};
  for (int i = 0; i < 3; ++i) {
    training.step({{gradients[i]}}, 0.1);
    EXPECT_NEAR(training.master(0)[0], weights[i], 1e-7);
    EXPECT_NEAR(training.moment(0, 0)[0], buffers[i], 1e-7);
  }
}

TEST_P(OnEachTarget, V13AdamSkip) {
  Training training(options({.name = OptimizerKind::kAdam}, 1024), scalar(1));
  const double gradients[] = {1, kInf, 1}, weights[] = {.99900000001, .99900000001, .99800000002};
  for (int i = 0; i < 3; ++i) {
    training.step({{gradients[i]}}, 1e-3);
    // lr is an FP32 number in StepState: 1e-3 is off by 5e-11.
    EXPECT_NEAR(training.master(0)[0], weights[i], is_reference() ? 2e-10 : 1.3e-7);
  }
}

// C22 (eps 1e-8 must not vanish): no gradient and no moments give an update of exactly 0.
TEST_P(OnEachTarget, C22ZeroGradientUpdatesNothing) {
  for (const OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    Training training(options({.name = kind, .lr = 0.1}, 1024), scalar(0.7));
    const std::vector<double> before = training.master(0);
    training.step({{0}}, 0.1);
    EXPECT_EQ(training.master(0), before);
    EXPECT_EQ(training.state().applied, 1);
  }
}

// amp.md 3.2: in FP16 the second moment would be 0 for |g| < 5.46e-3; here g = 1e-3 moves the weight by lr.
TEST_P(OnEachTarget, SmallGradientsReachTheSecondMoment) {
  Training training(options({.name = OptimizerKind::kAdam, .lr = 0.1}, 1024), scalar(0.5));
  training.step({{1e-3}}, 0.1);
  EXPECT_NEAR(training.master(0)[0], 0.4, 1e-5);
}

// C32: decay is added to the unscaled gradient. p 2, decay .1, g 1, S 1024: effective gradient 1.2.
TEST_P(OnEachTarget, C32DecayAfterUnscale) {
  Training training(options({.name = OptimizerKind::kSgd, .weight_decay = 0.1}, 1024), scalar(2));
  training.step({{1}}, 1);
  EXPECT_NEAR(training.master(0)[0], 0.8, 1e-7);
}

// C14: the schedule counts applied steps. Warm-up 10, the first 3 tries overflow: after 13 tries lr(10).
TEST_P(OnEachTarget, C14TheScheduleCountsAppliedSteps) {
  Training training(options({.name = OptimizerKind::kSgd}, 65536), scalar(1));
  const ScheduleOptions schedule{.name = ScheduleKind::kPoly, .warmup = 10};
  std::vector<double> rates;
  for (int attempt = 0; attempt < 14; ++attempt) {
    rates.push_back(scheduled_lr(schedule, 0.1, training.state().applied, 100));
    training.step({{attempt < 3 ? kInf : 1}}, rates.back());
  }
  EXPECT_EQ(rates[3], rates[0]);
  EXPECT_EQ(rates[13], scheduled_lr(schedule, 0.1, 10, 100));
  EXPECT_EQ(training.state().applied, 11);
}

// Everything that a skipped step must not touch.
struct Snapshot {
  std::vector<std::vector<double>> buffers;
  std::int64_t applied;
  std::array<std::uint64_t, 2> versions;
  friend bool operator==(const Snapshot&, const Snapshot&) = default;

  explicit Snapshot(Training& t)
      : applied(t.state().applied),
        versions{t.store().region(ParamRegion::kCast).copy.storage()->version(),
                 t.store().region(ParamRegion::kKept).master.storage()->version()} {
    for (const ParamRegion region : {ParamRegion::kCast, ParamRegion::kKept}) {
      buffers.push_back(t.store().region(region).master.to_values());
      buffers.push_back(t.store().region(region).copy.to_values());
    }
    for (const Optimizer::Moment& moment : t.optimizer().moments())
      buffers.push_back(moment.flat.to_values());
  }
};

TEST_P(OnEachTarget, ASkippedStepChangesNothingButTheScaler) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW, OptimizerKind::kRmsProp}) {
    OptimizerOptions optimizer{.name = kind, .lr = 0.1, .weight_decay = 0.1};
    if (kind == OptimizerKind::kSgd || kind == OptimizerKind::kRmsProp) optimizer.momentum = 0.9;
    Training training(options(optimizer, 1024, 1), {{"w", Shape{3, 5}, ParamRegion::kCast, filled(15, 0, 1)},
                                                    {"b", Shape{3}, ParamRegion::kKept, filled(3, 1, 1)}});
    training.step({filled(15, 2, 1), filled(3, 3, 1)}, 0.1);
    const Snapshot before(training);
    const ScheduleOptions schedule{.name = ScheduleKind::kCosine};
    const double lr = scheduled_lr(schedule, 0.1, training.state().applied, 10);
    for (const double bad : {kInf, -kInf, nan}) {
      const float scale = training.state().scale;
      std::vector<double> gradient = filled(3, 3, 1);
      gradient[1] = bad;
      training.step({filled(15, 2, 1), gradient}, 0.1);
      EXPECT_EQ(training.state().event, StepEvent::kOverflow);
      EXPECT_EQ(training.state().scale, scale / 2);
      EXPECT_TRUE(Snapshot(training) == before) << bad;
    }
    const float scale = training.state().scale;
    for (const double loss : {nan, kInf}) {
      training.step({filled(15, 2, 1), filled(3, 3, 1)}, 0.1, loss);
      EXPECT_EQ(training.state().event, StepEvent::kForward);
      EXPECT_EQ(training.state().scale, scale);
      EXPECT_TRUE(Snapshot(training) == before) << "loss " << loss;
    }
    EXPECT_EQ(scheduled_lr(schedule, 0.1, training.state().applied, 10), lr);
    EXPECT_EQ(training.state().attempted, 6);
    EXPECT_EQ(training.state().skipped_overflow, 3);
    EXPECT_EQ(training.state().skipped_forward, 2);
    training.step({filled(15, 2, 1), filled(3, 3, 1)}, 0.1);  // and the next good one is applied
    const Snapshot after(training);
    for (std::size_t i = 0; i < before.buffers.size(); ++i)
      EXPECT_NE(after.buffers[i], before.buffers[i]) << i;
    for (std::size_t i = 0; i < 2; ++i) EXPECT_GT(after.versions[i], before.versions[i]);
  }
}

// A scale below 1: what overflows only when unscaled is an overflow too (amp.md 2.3, 4).
TEST(Optimizer, AScaleBelowOneCountsOverflowsOfTheUnscaledGradient) {
  Training training({.compute = DType::kF32,
                     .optimizer = {.name = OptimizerKind::kSgd},
                     .loss_scale = {.mode = LossScaleMode::kStatic, .init = 0x1p-8, .min = 0x1p-8}},
                    scalar(1));
  prepare_step(training.state(), 1);
  Training::write(training.parameter(0).gradient(), {0x1p125});
  training.finish();
  EXPECT_EQ(training.state().event, StepEvent::kOverflow);
  EXPECT_EQ(training.master(0)[0], 1);
}

// FP32 squares overflow above 1.8447e19; the norm is summed in FP64.
TEST_P(OnEachTarget, TheNormOfLargeGradientsIsFinite) {
  Training training(options({.name = OptimizerKind::kSgd}, 1, 1),
                    {{"w", Shape{1, 2}, ParamRegion::kCast, {0, 0}}});
  training.step({{0x1p100, 0}}, 1);
  EXPECT_EQ(training.state().event, StepEvent::kGood);
  EXPECT_EQ(training.state().grad_norm, 0x1p100);
  EXPECT_NEAR(training.master(0)[0], -1, 1e-6);
}

// amp.md 3.3: without FP32 masters w = 1 would never move under steps of 1e-4.
TEST_P(OnEachTarget, SmallUpdatesAreNotLost) {
  Training training(options({.name = OptimizerKind::kSgd}, 1024), scalar(1));
  for (int i = 0; i < 100; ++i) training.step({{1}}, 1e-4);
  EXPECT_NEAR(training.master(0)[0], is_reference() ? 0.99 : 0.98999834, is_reference() ? 1e-9 : 5e-9);
  const double copy = training.parameter(0).value().to_values()[0];
  const double expected[] = {0.98999834, 0.98999834, 0.99023438, 0.98828125};
  const std::size_t row = GetParam().compute == DType::kF16 ? 2 : GetParam().compute == DType::kBF16 ? 3 : 0;
  EXPECT_NEAR(copy, is_reference() ? 0.99 : expected[row], 5e-9);
}

// Event W: the step is applied, then the run ends with the parameter's name.
TEST(Optimizer, AWeightThatNoLongerFitsFp16EndsTheRun) {
  Training training({.compute = DType::kF16, .optimizer = {.name = OptimizerKind::kSgd}},
                    {{"enc0.conv1.weight", Shape{1, 2}, ParamRegion::kCast, {1, 65000}}});
  training.step({{1, -100}}, 1);
  EXPECT_EQ(training.state().event, StepEvent::kGood);
  try {
    training.step({{1, -1000}}, 1);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
    EXPECT_EQ(
        std::string(error.what()),
        "[weights] a weight of 'enc0.conv1.weight' does not fit F16: got |w| = 66100, expected less than "
        "65520. "
        "Keep this layer in FP32 with precision.fp32_layers: [\"enc0.conv1\"], or lower optimizer.lr, or set "
        "precision.compute: bf16.");
  }
}

TEST(Optimizer, MomentsAreNamedAndCounted) {
  const auto moments = [](const OptimizerOptions& o) {
    Training training(
        {.compute = DType::kF16, .optimizer = o},
        {{"w", Shape{2, 2}, ParamRegion::kCast, {1, 2, 3, 4}}, {"b", Shape{2}, ParamRegion::kKept, {1, 2}}});
    std::vector<std::string> names;
    for (const Optimizer::Moment& m : training.optimizer().moments())
      names.push_back(m.name + (m.region == ParamRegion::kCast ? "/cast" : "/kept"));
    return names;
  };
  EXPECT_TRUE(moments({.name = OptimizerKind::kSgd}).empty());
  EXPECT_EQ(moments({.name = OptimizerKind::kSgd, .momentum = 0.9}),
            (std::vector<std::string>{"momentum/cast", "momentum/kept"}));
  EXPECT_EQ(moments({.name = OptimizerKind::kAdamW}),
            (std::vector<std::string>{"exp_avg/cast", "exp_avg_sq/cast", "exp_avg/kept", "exp_avg_sq/kept"}));
}

TEST(OptimizerOptions, RulesAndConditions) {
  const auto error = [](const std::string& yaml) -> std::string {
    OptimizerOptions o;
    try {
      parse_options(parse_yaml_text(yaml, "job.yaml"), fields(o));
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error("name: sgd\nlr: 0.01\nmomentum: 0.99\nnesterov: true\nweight_decay: 3e-5\n"), "no error");
  EXPECT_EQ(error("name: adamw\nlr: 2.0e-3\nweight_decay: 1.0e-2\nbeta1: 0.9\nbeta2: 0.999\neps: 1e-8\n"),
            "no error");
  EXPECT_THAT(error("name: sgd\nnesterov: true\n"),
              HasSubstr("got true with momentum 0, expected a momentum above 0"));
  EXPECT_THAT(error("name: adamw\nmomentum: 0.9\n"), HasSubstr("momentum"));
  EXPECT_THAT(error("name: adam\nbeta2: 1\n"), HasSubstr("beta2"));
  EXPECT_THAT(error("lr: 0\n"), HasSubstr("lr"));
  EXPECT_THAT(error("weight_decay: -1\n"), HasSubstr("weight_decay"));
  EXPECT_THAT(error("name: sgdm\n"), HasSubstr("sgd"));
  Parameter w{Shape{1}, ParamRegion::kKept, {}};
  const std::vector<NamedParameter> one{{"w", &w}};
  ParamStore store(one, {.device = kReferenceDevice}, {});
  EXPECT_THROW(Optimizer({.lr = std::numeric_limits<double>::quiet_NaN()}, store), Error);
}

}  // namespace
}  // namespace tandem

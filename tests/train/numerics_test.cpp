// Overflow attribution: an infinity planted at every tensor of a step of unet3d, in both directions, is
// blamed by name and index; magnitudes before rounding; the loss scale's floor policies and headroom on real
// overflows.
#include "train/numerics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/tensor/finite.h"
#include "tests/train/numerics_fixture.h"

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using tests::kEdge;
using tests::kInf;
using tests::Net;
using tests::Noise;
using tests::Seen;

// The last element of a tensor, logically.
std::vector<std::int64_t> last_index(const Shape& shape) {
  std::vector<std::int64_t> index;
  for (const std::int64_t size : shape.sizes()) index.push_back(size - 1);
  return index;
}

TEST(NonfiniteCause, EveryTensorOfTheStepIsBlamedExactly) {
  Net probe;
  probe.step();
  const std::vector<Seen> all = probe.planter.seen;
  std::set<std::string> layers[2];
  ASSERT_GT(all.size(), 40U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Seen& victim = all[i];
    layers[victim.in_backward].insert(victim.layer);
    Net net;
    net.planter.target = static_cast<int>(i);
    const StepReport report = net.step();
    const std::string what = victim.layer + " " + victim.op + (victim.in_backward ? " backward" : " forward");
    if (report.event == StepEvent::kGood) {
      // Only what a ReLU, or a maximum, swallows may go unnoticed: nothing of this net does.
      ADD_FAILURE() << what << ": the infinity went unnoticed";
      continue;
    }
    ASSERT_TRUE(report.cause) << what;
    const NonfiniteCause& cause = *report.cause;
    EXPECT_EQ(cause.in_backward, victim.in_backward) << what;
    EXPECT_EQ(cause.layer, victim.layer) << what;
    EXPECT_EQ(cause.op, victim.op) << what;
    EXPECT_EQ(cause.index, last_index(victim.shape)) << what;
    EXPECT_EQ(cause.value, kInf) << what;
    if (victim.is_leaf) {
      EXPECT_THAT(cause.tensor, HasSubstr("gradient of " + victim.layer)) << what;
    } else {
      EXPECT_EQ(cause.tensor, victim.in_backward ? "input gradient" : "output") << what;
    }
    if (victim.shape.rank() == 5 && !victim.is_leaf) {
      EXPECT_THAT(cause.samples, ElementsAre(HasSubstr("case1"))) << what;
    }
  }
  for (const char* layer :
       {"enc0.conv1", "enc0.norm1", "enc0.conv2", "enc0.norm2", "enc1.conv1", "enc1.norm1", "enc1.conv2",
        "enc1.norm2", "up0", "dec0.conv1", "dec0.norm1", "dec0.conv2", "dec0.norm2", "head0"})
    for (const auto& seen : layers) EXPECT_TRUE(seen.contains(layer)) << layer;
}

// The fault is in the second micro-batch: its samples are named, not those of the first.
TEST(NonfiniteCause, AFaultInALaterMicroBatchNamesItsSamples) {
  Net probe({}, DType::kF16, 2);
  probe.step();
  const double second_image = probe.planter.image;
  const std::vector<Seen> all = probe.planter.seen;
  int outputs = 0, gradients = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool names_sample = all[i].shape.rank() == 5 && !all[i].is_leaf;
    if (!names_sample && !all[i].is_leaf) continue;
    Net net({}, DType::kF16, 2);
    net.planter.target = static_cast<int>(i);
    net.planter.only_image = second_image;
    const StepReport report = net.step();
    ASSERT_TRUE(report.cause) << i;
    EXPECT_EQ(report.cause->layer, all[i].layer) << i;
    if (names_sample)
      EXPECT_THAT(report.cause->samples, ElementsAre(HasSubstr("case3"))) << i;
    else
      EXPECT_THAT(report.cause->samples, ElementsAre(HasSubstr("case2"), HasSubstr("case3"))) << i;
    (names_sample ? outputs : gradients) += 1;
  }
  EXPECT_GT(outputs, 20);
  EXPECT_GT(gradients, 20);
}

// A loss weight of 1e5 at scale 65536: the first 16-bit gradient, that of the logits, overflows. Its
// magnitude is the one of FP32: scale * dloss/dlogit.
TEST(NonfiniteCause, MagnitudeOfAGradientIsThatWithoutRounding) {
  Net net, wide({.mode = LossScaleMode::kStatic, .init = 65536}, DType::kF32);
  net.loss_weight = wide.loss_weight = 1e5;
  const StepReport report = net.step();
  wide.step();
  EXPECT_EQ(report.event, StepEvent::kOverflow);
  ASSERT_TRUE(report.cause);
  EXPECT_TRUE(report.cause->in_backward);
  EXPECT_EQ(report.cause->op, "dice_ce");
  EXPECT_EQ(report.cause->tensor, "input gradient");
  const auto expected = std::ranges::find_if(wide.planter.seen, [](const Seen& s) { return s.in_backward; });
  ASSERT_NE(expected, wide.planter.seen.end());
  const double magnitude = std::abs(value_at(expected->tensor, report.cause->index));
  EXPECT_GT(magnitude, 65504);
  EXPECT_NEAR(report.cause->magnitude, magnitude, 0.02 * magnitude);
  EXPECT_THAT(to_text(*report.cause), HasSubstr("backward, op dice_ce, input gradient at ["));
}

// amp.md C26: an activation of 1e5 in the encoder.
TEST(NonfiniteCause, AForwardOverflowNamesItsLayerAndMagnitude) {
  Net net;
  for (const NamedParameter& p : net.model->parameters())
    if (p.name == "enc1.conv2.bias") p.parameter->master().data<float>()[3] = 1e5F;
  const StepReport report = net.step();
  EXPECT_EQ(report.event, StepEvent::kForward) << "the scale is not at fault";
  ASSERT_TRUE(report.cause);
  EXPECT_FALSE(report.cause->in_backward);
  EXPECT_EQ(report.cause->layer, "enc1.conv2");
  EXPECT_EQ(report.cause->op, "conv");
  EXPECT_THAT(report.cause->index, ElementsAre(0, 3, 0, 0, 0));
  EXPECT_NEAR(report.cause->magnitude, 1e5, 100);
  EXPECT_EQ(net.trainer->state().scale, 65536);
}

TEST(NonfiniteCause, ABadWeightAndABadImageAreNamedThemselves) {
  Net net;
  for (const NamedParameter& p : net.model->parameters())
    if (p.name == "dec0.conv1.weight") p.parameter->master().data<float>()[0] = std::nanf("");
  net.trainer->params().refresh_copies();
  const StepReport report = net.step();
  ASSERT_TRUE(report.cause);
  EXPECT_EQ(report.cause->tensor, "dec0.conv1.weight");
  EXPECT_THAT(report.cause->index, ElementsAre(0, 0, 0, 0, 0));
  EXPECT_TRUE(std::isnan(report.cause->value));

  class BadVoxel final : public Dataset {
   public:
    std::int64_t size() const override { return 1; }
    Sample get(std::int64_t index, const Draw& draw) const override {
      Sample sample = Noise().get(index, draw);
      sample.image.data<float>()[kEdge + 2] = -std::numeric_limits<float>::infinity();
      return sample;
    }
  };
  Net other;
  Loader loader(std::make_shared<BadVoxel>(), {.batch_size = 1, .seed = 9});
  const StepReport bad = other.trainer->step(loader);
  ASSERT_TRUE(bad.cause);
  EXPECT_EQ(bad.cause->op, "data");
  EXPECT_EQ(bad.cause->tensor, "image");
  EXPECT_THAT(bad.cause->index, ElementsAre(0, 0, 0, 1, 2));
  EXPECT_EQ(bad.cause->value, -kInf);
  EXPECT_THAT(bad.cause->samples, ElementsAre(HasSubstr("case0")));
}

TEST(NonfiniteCause, ExplainingChangesNothingElse) {
  Net with, without;
  with.loss_weight = without.loss_weight = 1e5;
  with.step();
  with.loss_weight = without.loss_weight = 1;
  // The same batches from the second on, at the scale that the overflow left.
  without.loader->next();
  CheckpointContent content;
  with.trainer->save(content);
  for (NamedTensor& tensor : content.tensors) tensor.tensor = tensor.tensor.clone();
  without.trainer->load(content);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(with.step().loss, without.step().loss);
  CheckpointContent a, b;
  with.trainer->save(a);
  without.trainer->save(b);
  EXPECT_FALSE(diff_checkpoints(a, b).has_value());
}

TEST(NonfiniteCause, AGoodStepPaysNothing) {
  Net net;
  int passes = 0;
  net.step();
  const std::size_t tensors = net.planter.seen.size();
  for (int i = 0; i < 3; ++i) {
    net.step();
    passes += net.planter.seen.size() == tensors;
  }
  EXPECT_EQ(passes, 3);
}

TEST(NonfiniteCause, AbortTextHasCauseHistoryAndRemedy) {
  Net net({.init = 4, .max_skips_at_min = 3});
  net.loss_weight = 1e9;
  const std::string text = net.text_of_abort();
  EXPECT_THAT(text, HasSubstr("first not finite: backward, op dice_ce, input gradient at ["));
  EXPECT_THAT(text,
              HasSubstr("last steps: 1 overflow at 4, 2 overflow at 2, 3 overflow at 1, 4 overflow at 1, 5 "
                        "overflow at 1"));
  EXPECT_THAT(text, HasSubstr("optimizer.lr: 0.0001"));
  EXPECT_THAT(text, Not(HasSubstr("fp32_layers"))) << "no layer in FP32 is known to cure a gradient";
  ASSERT_TRUE(net.trainer->last_report().cause) << "also of the step that ended the run";
}

// at_floor: sanitize. The step at the floor is applied with a finite gradient, and the next ones too.
TEST(FloorPolicy, SanitizeAppliesFiniteGradients) {
  Net net({.init = 2, .max_skips_at_min = 2, .at_floor = FloorPolicy::kSanitize});
  net.loss_weight = 1e9;
  std::vector<std::int64_t> applied;
  for (int i = 0; i < 6; ++i) {
    net.step();
    applied.push_back(net.trainer->state().applied);
  }
  EXPECT_THAT(applied, ElementsAre(0, 0, 0, 1, 2, 3));
  EXPECT_EQ(net.trainer->params().first_nonfinite(), "");
  EXPECT_EQ(net.trainer->state().scale, 1);
}

TEST(FloorPolicy, FallbackIsAVerdictWithoutAnException) {
  Net net({.init = 1, .max_skips_at_min = 2, .at_floor = FloorPolicy::kFallbackFp32});
  net.loss_weight = 1e9;
  net.step();
  EXPECT_EQ(net.trainer->state().verdict, ScalerVerdict::kContinue);
  net.step();
  EXPECT_EQ(net.trainer->state().verdict, ScalerVerdict::kAtFloor);
}

// Dynamic mode grows into an overflow again and again; headroom mode stops one factor below it.
TEST(Headroom, NoOverflowAfterWarmUpWhereDynamicModeHasOnePerInterval) {
  std::int64_t skipped[2];
  double scale[2];
  const LossScaleMode modes[] = {LossScaleMode::kDynamic, LossScaleMode::kHeadroom};
  for (int k = 0; k < 2; ++k) {
    Net net({.mode = modes[k], .init = 65536, .growth_interval = 4, .max = 0x1p40});
    for (int i = 0; i < 120; ++i) net.step();
    skipped[k] = net.trainer->state().skipped_overflow;
    scale[k] = net.trainer->state().scale;
  }
  EXPECT_GE(skipped[0], 10);
  EXPECT_EQ(skipped[1], 0);
  EXPECT_GT(scale[1], 65536) << "it does grow";
  EXPECT_GE(scale[1], scale[0] / 16);
}

TEST(Finite, FirstNonfiniteAndLargestMagnitude) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const Device device = dtype == DType::kF64 ? kReferenceDevice : kCpuDevice;
    const auto tensor = [&](std::vector<double> values) {
      return Tensor::from_values(Shape{2, 2, 1, 1, 2}, values, dtype, device);
    };
    EXPECT_FALSE(first_nonfinite(tensor({0, -1, 2, 3, 4, 5, -6, 7}))) << name(dtype);
    EXPECT_EQ(largest_magnitude(tensor({0, -1, 2, 3, 4, 5, -8, 7})), 8) << name(dtype);
    // Stored order is n, w, c: (0, 1, w 0) comes before (0, 0, w 1).
    const auto found = first_nonfinite(tensor({0, kNan, -kInf, 3, 4, 5, -6, 7}));
    ASSERT_TRUE(found) << name(dtype);
    EXPECT_THAT(found->index, ElementsAre(0, 1, 0, 0, 0));
    EXPECT_EQ(found->value, -kInf);
    EXPECT_EQ(largest_magnitude(tensor({0, kNan, -kInf, 3, 4, 5, -6, 7})), kInf) << "NaN is left out";
    EXPECT_EQ(value_at(tensor({0, 1, 2, 3, 4, 5, -6, 7}), {1, 1, 0, 0, 0}), -6);
    const Tensor slice = tensor({0, 1, kInf, 3, 4, 5, 6, 7}).slice_channels(0, 1);
    EXPECT_FALSE(first_nonfinite(slice)) << "the other channel is not looked at";
    EXPECT_EQ(largest_magnitude(slice), 5);
  }
  EXPECT_FALSE(first_nonfinite(Tensor::zeros(Shape{0, 3}, DType::kF32)));
  EXPECT_EQ(largest_magnitude(Tensor::zeros(Shape{0, 3}, DType::kF32)), 0);
  const Tensor wide = Tensor::from_values(Shape{4}, std::vector<double>{kNan, -kInf, kInf, 2}, DType::kF32);
  make_finite(wide, 65504);
  EXPECT_THAT(wide.to_values(), ElementsAre(0, -65504, 65504, 2));
}

}  // namespace
}  // namespace tandem

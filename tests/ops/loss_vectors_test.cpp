// The losses against hand-checked values (research/medical.md 2.2: nnU-Net v2's CE and Dice, MONAI's Dice),
// on the reference and, in FP32, on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/ops/loss.h"
#include "tests/ops/op_table.h"
#include "tests/ops/test_devices.h"

namespace tandem::testing {
namespace {

// Two samples, three classes, four voxels.
const Values kLogits{2, 0, -1, 1, 0, 1, 0, 0, -1, 0, 3, 0, 0, 0, 0, 0, 1, -1, 2, 0, 0, 2, -2, 1};
const Values kLabels{0, 1, 2, 0, 1, 2, 1, 2};
constexpr std::int32_t kIgnored = 7;

class LossVectors : public ::testing::TestWithParam<Device> {
 protected:
  LossVectors() : tape_({.device = GetParam()}, false) {}

  bool exact() const { return GetParam() == kReferenceDevice; }
  double tolerance() const { return exact() ? 5e-10 : 2e-7; }
  Var logits(const Shape& shape, const Values& values) {
    return tape_.constant(
        Tensor::from_values(shape, values, exact() ? DType::kF64 : DType::kF32, GetParam()));
  }
  Var labels(const Shape& shape, const Values& values) {
    return tape_.constant(Tensor::from_values(shape, values, DType::kI32, GetParam()));
  }
  Var vector_logits() { return logits({2, 3, 4}, kLogits); }
  Var vector_labels() { return labels({2, 4}, kLabels); }
  Var labels_with_last_ignored() {
    Values values = kLabels;
    values.back() = kIgnored;
    return labels({2, 4}, values);
  }
  // Two classes with probability p of class 1.
  Var probabilities(const Shape& shape, const Values& p) {
    const std::int64_t count = shape.spatial_numel();
    Values values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < p.size(); ++i) {
      const std::int64_t n = static_cast<std::int64_t>(i) / count, v = static_cast<std::int64_t>(i) % count;
      values[static_cast<std::size_t>((n * 2 + 1) * count + v)] = std::log(p[i] / (1 - p[i]));
    }
    return logits(shape, values);
  }
  static double value(const Var& loss) { return loss.value().to_values()[0]; }

  Tape tape_;
};

TEST_P(LossVectors, CrossEntropy) {
  EXPECT_NEAR(value(cross_entropy(vector_logits(), vector_labels())), 0.344285803, tolerance());
}

TEST_P(LossVectors, DiceOfNnUnet) {
  const auto dice = [&](bool batch, bool background) {
    return value(soft_dice(vector_logits(), vector_labels(), {.batch = batch, .background = background}));
  };
  EXPECT_NEAR(dice(false, false), -0.732470551, tolerance());
  EXPECT_NEAR(dice(true, false), -0.747078381, tolerance());
  EXPECT_NEAR(dice(false, true), -0.618024140, tolerance());
  EXPECT_NEAR(dice(true, true), -0.717969347, tolerance());
}

TEST_P(LossVectors, DiceAndCrossEntropy) {
  const auto both = [&](bool batch) {
    return value(dice_ce(vector_logits(), vector_labels(), {.dice = {.batch = batch}}));
  };
  EXPECT_NEAR(both(false), -0.388184748, tolerance());
  EXPECT_NEAR(both(true), -0.402792577, tolerance());
}

TEST_P(LossVectors, WeightsOfTheSum) {
  EXPECT_NEAR(value(dice_ce(vector_logits(), vector_labels(), {.dice_weight = 0.5, .ce_weight = 2})),
              2 * 0.344285803 - 0.5 * 0.747078381, 3 * tolerance());
}

TEST_P(LossVectors, IgnoredVoxel) {
  const Var ignoring = labels_with_last_ignored();
  EXPECT_NEAR(value(cross_entropy(vector_logits(), ignoring, {.ignore_label = kIgnored})), 0.314691673,
              tolerance());
  EXPECT_NEAR(value(soft_dice(vector_logits(), ignoring, {.batch = false, .ignore_label = kIgnored})),
              -0.753366216, tolerance());
  EXPECT_NEAR(value(soft_dice(vector_logits(), ignoring, {.batch = true, .ignore_label = kIgnored})),
              -0.769456451, tolerance());
}

// MONAI's DiceLoss is 1 - D with the background counted.
TEST_P(LossVectors, DiceOfMonai) {
  const auto dice = [&](bool squared) {
    return 1 + value(soft_dice(vector_logits(), vector_labels(),
                               {.batch = false, .background = true, .squared = squared}));
  };
  EXPECT_NEAR(dice(false), 0.381975860, tolerance());
  EXPECT_NEAR(dice(true), 0.243361143, tolerance());
}

TEST_P(LossVectors, EmptyClass) {
  const Var background = labels({1, 8}, Values(8, 0));
  EXPECT_NEAR(-value(soft_dice(probabilities({1, 2, 8}, Values(8, 0.1)), background)), 1.24998e-5, 1e-10);
  Values sure(16, 0);
  for (std::size_t i = 8; i < 16; ++i) sure[i] = -1000;  // p = 0 exactly
  EXPECT_EQ(value(soft_dice(logits({1, 2, 8}, sure), background)), -1);
}

TEST_P(LossVectors, SampleAgainstBatchDice) {
  const Var p = probabilities({2, 2, 4}, {0.9, 0.8, 0.1, 0.1, 0.2, 0.1, 0.1, 0.1});
  const Var g = labels({2, 4}, {1, 1, 0, 0, 0, 0, 0, 0});
  EXPECT_NEAR(-value(soft_dice(p, g, {.batch = false})), 0.435908, 5e-7);
  EXPECT_NEAR(-value(soft_dice(p, g, {.batch = true})), 0.772728, 5e-7);
}

TEST_P(LossVectors, NoValidVoxelIsNoLoss) {
  const Var all_ignored = labels({2, 4}, Values(8, kIgnored));
  EXPECT_EQ(value(cross_entropy(vector_logits(), all_ignored, {.ignore_label = kIgnored})), 0);
  // Every class is empty and nothing is predicted: D = s / s.
  EXPECT_EQ(value(soft_dice(vector_logits(), all_ignored, {.ignore_label = kIgnored})), -1);
}

// An ignored label inside 0..C-1 is dropped too.
TEST_P(LossVectors, IgnoredClass) {
  const Var two = logits({2, 2}, {1, 0, 3, 0});
  const Var mixed = labels({2}, {0, 1});
  EXPECT_NEAR(value(cross_entropy(two, mixed, {.ignore_label = 1})), std::log1p(std::exp(-1.0)), tolerance());
}

// (1 - e) nll + e mean over classes of -log p.
TEST_P(LossVectors, LabelSmoothing) {
  const double nll = std::log1p(std::exp(-2.0));
  EXPECT_NEAR(value(cross_entropy(logits({1, 2}, {2, 0}), labels({1}, {0}), {.label_smoothing = 0.1})),
              0.9 * nll + 0.1 * (nll + nll + 2) / 2, tolerance());
}

TEST_P(LossVectors, WrongLabelIsNanAndNeverAnIndex) {
  for (const double label : {-1.0, 3.0, 2147483647.0, -2147483648.0}) {
    Values values = kLabels;
    values[2] = label;
    const Var wrong = labels({2, 4}, values);
    EXPECT_TRUE(std::isnan(value(cross_entropy(vector_logits(), wrong)))) << label;
    EXPECT_TRUE(std::isnan(value(soft_dice(vector_logits(), wrong)))) << label;
    EXPECT_TRUE(std::isnan(value(dice_ce(vector_logits(), wrong, {.dice = {.ignore_label = kIgnored}}))))
        << label;
  }
}

TEST_P(LossVectors, NanLogitIsNan) {
  Values values = kLogits;
  values[5] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(value(dice_ce(logits({2, 3, 4}, values), vector_labels()))));
}

INSTANTIATE_TEST_SUITE_P(Devices, LossVectors, ::testing::ValuesIn(test_devices()),
                         [](const auto& info) { return device_name(info.param); });

}  // namespace
}  // namespace tandem::testing

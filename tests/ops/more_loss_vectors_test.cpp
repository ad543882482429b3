// The losses against the values of research/defect.md 2.2 (PyTorch's) and the sigmoid losses of
// medical.md 2.2 (pytorch-3dunet's), the stable forms of amp.md C10, and the errors of two tensors; on the
// reference and, in FP32, on the CPU.
#include <gtest/gtest.h>

#include <cmath>

#include "core/ops/labels.h"
#include "core/ops/loss.h"
#include "core/ops/regression_loss.h"
#include "tests/ops/op_table.h"
#include "tests/ops/test_devices.h"

namespace tandem::testing {
namespace {

constexpr LossActivation kSigmoid = LossActivation::kSigmoid;

class MoreLossVectors : public ::testing::TestWithParam<Device> {
 protected:
  MoreLossVectors() : tape_({.device = GetParam()}, false) {}

  bool exact() const { return GetParam() == kReferenceDevice; }
  double tolerance() const { return exact() ? 6e-9 : 2e-7; }
  Var floats(const Shape& shape, const Values& values) {
    return tape_.constant(
        Tensor::from_values(shape, values, exact() ? DType::kF64 : DType::kF32, GetParam()));
  }
  Var labels(const Shape& shape, const Values& values) {
    return tape_.constant(Tensor::from_values(shape, values, DType::kI32, GetParam()));
  }
  // defect.md 2.2: three rows of three classes; four binary logits.
  Var rows() { return floats({3, 3}, {2, 0, -1, 0.5, 1.5, 0, -1, 0, 1}); }
  Var classes() { return labels({3}, {0, 1, 2}); }
  Var binary() { return floats({4, 1}, {2, -1, 0.5, -3}); }
  Var binary_labels() { return labels({4}, {1, 1, 0, 0}); }
  // medical.md 2.2: two samples, three classes, four voxels.
  Var voxels() {
    return floats({2, 3, 4}, {2, 0, -1, 1, 0, 1, 0, 0, -1, 0, 3, 0, 0, 0, 0, 0, 1, -1, 2, 0, 0, 2, -2, 1});
  }
  Var voxel_labels() { return labels({2, 4}, {0, 1, 2, 0, 1, 2, 1, 2}); }
  static double value(const Var& loss) { return loss.value().to_values()[0]; }

  Tape tape_;
};

TEST_P(MoreLossVectors, CrossEntropyPerSample) {
  const double each[] = {0.16984602, 0.46436878, 0.40760596};
  for (int i = 0; i < 3; ++i) {
    Values targets(3, 9.0);
    targets[static_cast<std::size_t>(i)] = i;
    EXPECT_NEAR(value(cross_entropy(rows(), labels({3}, targets), {.ignore_label = 9})), each[i],
                tolerance());
  }
  EXPECT_NEAR(value(cross_entropy(rows(), classes())), 0.34727359, tolerance());
}

// The mean is over the weights of the targets, as PyTorch's.
TEST_P(MoreLossVectors, ClassWeightsAndSmoothing) {
  const std::vector<double> w{0.5, 1, 2};
  EXPECT_NEAR(value(cross_entropy(rows(), classes(), {.class_weights = w})), 0.38985821, tolerance());
  EXPECT_NEAR(value(cross_entropy(rows(), classes(), {.label_smoothing = 0.1})), 0.46394026, tolerance());
  EXPECT_NEAR(value(cross_entropy(rows(), classes(), {.label_smoothing = 0.1, .class_weights = w})),
              0.51417117, tolerance());
}

TEST_P(MoreLossVectors, BinaryCrossEntropy) {
  const double each[] = {0.12692801, 1.31326169, 0.97407698, 0.04858735};
  const Values z{2, -1, 0.5, -3}, y{1, 1, 0, 0};
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(value(bce_with_logits(floats({1, 1}, {z[i]}), labels({1}, {y[i]}))), each[i], tolerance());
  EXPECT_NEAR(value(bce_with_logits(binary(), binary_labels())), 0.61571351, tolerance());
  EXPECT_NEAR(value(bce_with_logits(binary(), binary_labels(), {.pos_weight = {3}})), 1.33580836,
              2 * tolerance());
}

TEST_P(MoreLossVectors, Focal) {
  const double each[] = {4.5089071e-4, 0.17546708, 0.28305870, 8.1962493e-5};
  const Values z{2, -1, 0.5, -3}, y{1, 1, 0, 0};
  const FocalOptions with_alpha{.activation = kSigmoid, .alpha = 0.25};
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(value(focal_loss(floats({1, 1}, {z[i]}), labels({1}, {y[i]}), with_alpha)), each[i],
                tolerance());
  EXPECT_NEAR(value(focal_loss(binary(), binary_labels(), with_alpha)), 0.11476466, tolerance());
  EXPECT_NEAR(value(focal_loss(binary(), binary_labels(), {.activation = kSigmoid})), 0.27029819,
              tolerance());
}

// Two classes z and 0 are a sigmoid of z: the softmax form has the same values.
TEST_P(MoreLossVectors, FocalOfSoftmaxIsThatOfSigmoid) {
  const Var both = floats({4, 2}, {0, 2, 0, -1, 0, 0.5, 0, -3});
  EXPECT_NEAR(value(focal_loss(both, binary_labels())), 0.27029819, tolerance());
  EXPECT_NEAR(value(focal_loss(both, binary_labels(), {.gamma = 0})), 0.61571351, tolerance());
}

TEST_P(MoreLossVectors, DiceOfProbabilities) {
  const auto dice = [&](double smooth) {
    return -value(soft_dice(binary(), binary_labels(), {.smooth = smooth, .activation = kSigmoid}));
  };
  EXPECT_NEAR(dice(1), 0.68459224, tolerance());
  EXPECT_NEAR(dice(1e-6), 0.60201674, tolerance());
  EXPECT_NEAR(1 + value(segmentation_loss(binary(), binary_labels(),
                                          {.smooth = 1, .dice_batch = true, .activation = kSigmoid})),
              0.93112122, 1e-6);  // the note's own sum is 5e-8 more
}

// pytorch-3dunet: Dice with squares and without smoothing; BCE over all channels; generalized Dice.
TEST_P(MoreLossVectors, Pytorch3dUnet) {
  const auto dice = [&](LossActivation activation) {
    return 1 + value(soft_dice(voxels(), voxel_labels(),
                               {.background = true, .squared = true, .smooth = 0, .activation = activation}));
  };
  EXPECT_NEAR(dice(kSigmoid), 0.221679906, tolerance());
  EXPECT_NEAR(dice(LossActivation::kSoftmax), 0.096454384, tolerance());
  EXPECT_NEAR(1 + value(generalized_dice(voxels(), voxel_labels(),
                                         {.background = true, .smooth = 0, .activation = kSigmoid})),
              0.419873254, tolerance());
  EXPECT_NEAR(value(bce_with_logits(voxels(), voxel_labels())), 0.461120724, tolerance());
  EXPECT_NEAR(1 + value(segmentation_loss(voxels(), voxel_labels(),
                                          {.smooth = 0,
                                           .dice_batch = true,
                                           .dice_background = true,
                                           .dice_squared = true,
                                           .activation = kSigmoid})),
              0.682800630, 2 * tolerance());
}

// alpha = beta = 1/2 with half the smoothing is Dice.
TEST_P(MoreLossVectors, TverskyOfHalvesIsDice) {
  EXPECT_NEAR(
      value(tversky(voxels(), voxel_labels(), {.dice = {.smooth = 0.5e-5}, .alpha = 0.5, .beta = 0.5})),
      -0.747078381, tolerance());
}

// amp.md C10: no logarithm of a rounded probability.
TEST_P(MoreLossVectors, LargeGaps) {
  const Var gap = floats({1, 2}, {0, 20});
  EXPECT_NEAR(value(focal_loss(gap, labels({1}, {0}), {.gamma = 2})), 20.000000002, 4e-6);
  EXPECT_NEAR(value(bce_with_logits(floats({1, 1}, {9.390625}), labels({1}, {0}))), 9.3907085, 1e-6);
  EXPECT_NEAR(value(focal_loss(floats({1, 1}, {9.390625}), labels({1}, {0}), {.activation = kSigmoid})),
              9.3907085 * std::pow(1 / (1 + std::exp(-9.390625)), 2), 2e-6);
  for (const LossActivation activation : {LossActivation::kSoftmax, kSigmoid}) {
    const FocalOptions options{.activation = activation};
    EXPECT_NEAR(value(focal_loss(floats({1, 2}, {-200, 200}), labels({1}, {1}), options)), 0, 1e-200);
    EXPECT_NEAR(value(focal_loss(floats({1, 2}, {65504, -65504}), labels({1}, {1}), options)),
                activation == kSigmoid ? 65504 : 131008, 0.01);
  }
}

TEST_P(MoreLossVectors, WrongLabelIsNan) {
  for (const double wrong : {-1.0, 2.0, 2147483647.0})
    EXPECT_TRUE(std::isnan(value(bce_with_logits(binary(), labels({4}, {1, wrong, 0, 0}))))) << wrong;
  EXPECT_TRUE(std::isnan(value(bce_with_logits(rows(), labels({3, 3}, {0, 1, 0, 2, 0, 0, 0, 0, 0})))));
  EXPECT_TRUE(std::isnan(value(soft_dice(rows(), labels({3}, {0, 3, 1}), {.activation = kSigmoid}))));
}

TEST_P(MoreLossVectors, NothingValidIsNoLoss) {
  const Var ignored = labels({4}, Values(4, 7));
  EXPECT_EQ(value(bce_with_logits(binary(), ignored, {.ignore_label = 7})), 0);
  EXPECT_EQ(value(focal_loss(binary(), ignored, {.activation = kSigmoid, .ignore_label = 7})), 0);
}

// PyTorch's mse_loss, l1_loss and smooth_l1_loss of [0.5, -2, 3] against [1, 0, 0].
TEST_P(MoreLossVectors, ErrorsOfTwoTensors) {
  const Var x = floats({3}, {0.5, -2, 3}), y = floats({3}, {1, 0, 0});
  EXPECT_NEAR(value(mse_loss(x, y)), 13.25 / 3, 1e-6);
  EXPECT_NEAR(value(l1_loss(x, y)), 5.5 / 3, 1e-6);
  EXPECT_NEAR(value(smooth_l1_loss(x, y)), (0.125 + 1.5 + 2.5) / 3, 1e-6);
  EXPECT_NEAR(value(smooth_l1_loss(x, y, 2)), (0.0625 + 1 + 2) / 3, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Devices, MoreLossVectors, ::testing::ValuesIn(test_devices()),
                         [](const auto& info) { return device_name(info.param); });

TEST(ClassWeights, RulesOfTheCounts) {
  const std::vector<std::int64_t> counts{900, 90, 10};
  const auto expect = [&](ClassWeightRule rule, const std::vector<double>& wanted) {
    const std::vector<double> got = class_weights(rule, counts);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], wanted[i], 5e-7 * wanted[i] + 5e-8);
  };
  expect(ClassWeightRule::kInverse, {0.3703704, 3.7037037, 33.333333});
  expect(ClassWeightRule::kSqrt, {0.2197945, 0.6950514, 2.0851541});
  expect(ClassWeightRule::kEffective, {0.0444296, 0.3062825, 2.6492879});
  EXPECT_THROW(class_weights(ClassWeightRule::kSqrt, {3, 0}), Error);
}

// PyTorch's interpolate(mode='nearest-exact'): 5 -> 2 takes 1 and 3, 4 -> 2 takes 1 and 3, 2 -> 4 doubles.
TEST(Labels, NearestTakesTheNearestCentre) {
  const auto resized = [](std::int64_t in, std::int64_t out) {
    Values values(static_cast<std::size_t>(in));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    return nearest_voxels(Tensor::from_values(Shape{1, 1, in}, values, DType::kI32), Shape{1, 3, out})
        .to_values();
  };
  EXPECT_EQ(resized(5, 2), (Values{1, 3}));
  EXPECT_EQ(resized(4, 2), (Values{1, 3}));
  EXPECT_EQ(resized(2, 4), (Values{0, 0, 1, 1}));
  EXPECT_EQ(resized(6, 1), (Values{3}));
  Values cube(2 * 4 * 4 * 4);
  for (std::size_t i = 0; i < cube.size(); ++i) cube[i] = static_cast<double>(i);
  EXPECT_EQ(nearest_voxels(Tensor::from_values(Shape{2, 1, 4, 4, 4}, cube, DType::kI32), Shape{2, 1, 2, 1, 2})
                .to_values(),
            (Values{25, 27, 57, 59, 89, 91, 121, 123}));
}

TEST(Labels, OneHotHasAChannelPerClass) {
  const Tensor labels = Tensor::from_values(Shape{2, 1, 2}, Values{2, 0, 1, 1}, DType::kI32);
  EXPECT_EQ(one_hot(labels, 3, DType::kF32).to_values(), (Values{0, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0}));
  EXPECT_THROW(one_hot(labels, 2, DType::kF32), Error);
}

}  // namespace
}  // namespace tandem::testing

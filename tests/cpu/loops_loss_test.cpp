// Softmax, cross entropy and soft Dice at every instruction-set level: nnU-Net's and MONAI's values,
// PyTorch's label smoothing and clamps, extremes, and the reference backend at odd sizes.
#include <limits>

#include "tests/cpu/loops_fixture.h"

namespace tandem::loops_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class LoopsLoss : public LoopsTest {};

Tensor labels_of(const Shape& shape, const std::vector<double>& values) {
  return make(shape, DType::kI32, values);
}

double loss_of(const CpuLoops& loops, const SegmentationLossArgs& args, const Tensor& logits,
               const Tensor& labels) {
  const Tensor sums(Shape{logits.shape()[0], 3 * logits.channels() + 2}, DType::kF64);
  const Tensor loss = make(Shape{1}, DType::kF32);
  loops.segmentation_loss(args, {logits, labels, sums}, loss);
  return read(loss)[0];
}

// medical.md 2.2: two samples, three classes, four voxels.
Tensor vector_logits(DType dtype) {
  return Tensor::from_values(Shape{2, 3, 4}, std::vector<double>{2, 0, -1, 1, 0, 1,  0, 0, -1, 0, 3,  0,  //
                                                                 0, 0, 0,  0, 1, -1, 2, 0, 0,  2, -2, 1},
                             dtype);
}
Tensor vector_labels(double last = 2) { return labels_of(Shape{2, 4}, {0, 1, 2, 0, 1, 2, 1, last}); }

struct LossVector {
  const char* what;
  SegmentationLossArgs args;
  double expected;
};
const LossVector kVectors[] = {
    {"CE", {.ce_weight = 1, .dice_weight = 0}, 0.344285803},
    {"Dice by sample", {.ce_weight = 0}, -0.732470551},
    {"Dice over the batch", {.ce_weight = 0, .dice_batch = true}, -0.747078381},
    {"Dice by sample with background", {.ce_weight = 0, .dice_background = true}, -0.618024140},
    {"Dice over the batch with background",
     {.ce_weight = 0, .dice_batch = true, .dice_background = true},
     -0.717969347},
    {"Dice + CE by sample", {}, -0.388184748},
    {"Dice + CE over the batch", {.dice_batch = true}, -0.402792577},
    {"MONAI Dice - 1", {.ce_weight = 0, .dice_background = true}, 0.381975860 - 1},
    {"MONAI squared Dice - 1",
     {.ce_weight = 0, .dice_background = true, .dice_squared = true},
     0.243361143 - 1},
};

TEST_P(LoopsLoss, PublishedVectors) {
  for (const LossVector& v : kVectors)
    for (const DType dtype : kDTypes)  // the logits are small integers: exact in every dtype
      EXPECT_NEAR(loss_of(loops(), v.args, vector_logits(dtype), vector_labels()), v.expected, 2e-7)
          << v.what;
}

TEST_P(LoopsLoss, IgnoredVoxelLeavesEverySum) {
  for (const double ignored : {255.0, -100.0}) {
    const auto label = static_cast<std::int32_t>(ignored);
    const Tensor logits = vector_logits(DType::kF32);
    const SegmentationLossArgs ce{.dice_weight = 0, .has_ignore_label = true, .ignore_label = label};
    SegmentationLossArgs dice{.ce_weight = 0, .has_ignore_label = true, .ignore_label = label};
    EXPECT_NEAR(loss_of(loops(), ce, logits, vector_labels(ignored)), 0.314691673, 1e-7);
    EXPECT_NEAR(loss_of(loops(), dice, logits, vector_labels(ignored)), -0.753366216, 1e-7);
    dice.dice_batch = true;
    EXPECT_NEAR(loss_of(loops(), dice, logits, vector_labels(ignored)), -0.769456451, 1e-7);
  }
}

TEST_P(LoopsLoss, OnlyIgnoredVoxelsGiveZeroCrossEntropy) {
  const Tensor logits = vector_logits(DType::kF32),
               labels = labels_of(Shape{2, 4}, std::vector<double>(8, 9.0));
  EXPECT_EQ(loss_of(loops(), {.dice_weight = 0, .has_ignore_label = true, .ignore_label = 9}, logits, labels),
            0);
}

// medical.md 2.2: an empty class has D = smooth / (sum p + smooth), and 1 when nothing is predicted; amp.md
// C10.
TEST_P(LoopsLoss, EmptyClassAndLargeGaps) {
  const Tensor gap = make(Shape{1, 2}, DType::kF32, {0, 20});
  EXPECT_EQ(loss_of(loops(), {.dice_weight = 0}, gap, labels_of(Shape{1}, {0})), 20);
  const double logit = std::log(0.1 / 0.9);
  std::vector<double> rows;
  for (int i = 0; i < 8; ++i) rows.insert(rows.end(), {0, logit});
  const Tensor logits = make(Shape{1, 2, 8}, DType::kF32, rows);
  const Tensor labels = labels_of(Shape{1, 8}, std::vector<double>(8, 0.0));
  EXPECT_NEAR(loss_of(loops(), {.ce_weight = 0}, logits, labels), -1.24998e-5, 1e-10);
  for (std::size_t i = 1; i < rows.size(); i += 2) rows[i] = -kInfinity;
  const Tensor never = make(Shape{1, 2, 8}, DType::kF32, rows);
  EXPECT_EQ(loss_of(loops(), {.ce_weight = 0}, never, labels), -1);
}

// amp.md C4: ones against ones over 128^3 voxels, smooth 1: Dice is 1 (an FP16 sum would be infinite).
TEST_P(LoopsLoss, ManyVoxels) {
  const std::int64_t voxels = 128 * 128 * 128;
  const Tensor logits(Shape{1, 2, voxels}, DType::kF16), labels(Shape{1, voxels}, DType::kI32);
  for (std::int64_t i = 0; i < voxels; ++i) {
    store(logits, 2 * i, 0);
    store(logits, 2 * i + 1, 200);
    store(labels, i, 1);
  }
  EXPECT_EQ(loss_of(loops(), {.ce_weight = 0, .smooth = 1}, logits, labels), -1);
}

TEST_P(LoopsLoss, ExtremeLogits) {
  const auto loss = [&](double a, double b, double label, DType dtype) {
    return loss_of(loops(), {.dice_weight = 0}, make(Shape{1, 2}, dtype, {a, b}),
                   labels_of(Shape{1}, {label}));
  };
  EXPECT_EQ(loss(65504, -65504, 0, DType::kF16), 0);
  EXPECT_EQ(loss(65504, -65504, 1, DType::kF16), 131008);
  EXPECT_EQ(loss(0, -kInfinity, 0, DType::kF16), 0);
  EXPECT_EQ(loss(0, -kInfinity, 1, DType::kF16), kInfinity);
  EXPECT_TRUE(std::isnan(loss(0, std::nan(""), 0, DType::kF32)));
  EXPECT_TRUE(std::isnan(loss(0, std::nan(""), 1, DType::kF32)));
  EXPECT_TRUE(std::isnan(loss(kInfinity, 0, 0, DType::kF32)));
  EXPECT_TRUE(std::isnan(loss(-kInfinity, -kInfinity, 0, DType::kF32)));
}

TEST_P(LoopsLoss, LabelOutOfRangeIsNanEverywhere) {
  for (const double bad : {3.0, -1.0, 2147483647.0, -2147483648.0})
    for (const SegmentationLossArgs& args :
         {SegmentationLossArgs{}, SegmentationLossArgs{.ce_weight = 0},
          SegmentationLossArgs{.dice_weight = 0, .has_ignore_label = true, .ignore_label = 7}})
      EXPECT_TRUE(std::isnan(loss_of(loops(), args, vector_logits(DType::kF32), vector_labels(bad)))) << bad;
}

struct LossCase {
  Shape shape;
  DType dtype = DType::kF32;
  Layout layout = Layout::kPacked;
  SegmentationLossArgs args;
  bool has_weights = false;  // per voxel
};

Tensor some_weights(std::int64_t voxels) {
  Tensor weights(Shape{voxels}, DType::kF32);
  for (std::int64_t i = 0; i < voxels; ++i) store(weights, i, static_cast<double>(i % 4) * 0.75);
  return weights;
}

void check_loss(const CpuLoops& loops, const LossCase& test) {
  const auto reference = make_reference_backend();
  const std::int64_t classes = test.shape[1], voxels = test.shape.numel() / classes;
  const Tensor logits =
      make(test.shape, test.dtype, random_values(test.shape.numel(), 41, 0, 3), test.layout);
  const Tensor labels(Shape{voxels}, DType::kI32);
  for (std::int64_t i = 0; i < voxels; ++i) store(labels, i, static_cast<double>((i * i + i / 3) % classes));
  const Shape sums_shape{test.shape[0], 3 * classes + 2};
  const Tensor sums(sums_shape, DType::kF64), wanted_sums = exact(sums_shape);
  const Tensor loss = make(Shape{1}, DType::kF32), wanted = exact(Shape{1});
  const std::string where = describe(logits);
  const Tensor weights = test.has_weights ? some_weights(voxels) : Tensor();
  loops.segmentation_loss(test.args, {logits, labels, sums, weights}, loss);
  reference->segmentation_loss(test.args, {exact(logits), labels, wanted_sums, weights}, wanted);
  expect_near(loss, read(wanted), 1e-6, "loss of " + where);
  const Tensor seed = make(Shape{1}, DType::kF32, {1024.0});
  const Tensor gradient = make(test.shape, test.dtype, test.layout), wanted_gradient = exact(test.shape);
  loops.segmentation_loss_backward(test.args, {logits, labels, sums, weights}, seed, gradient);
  reference->segmentation_loss_backward(test.args, {exact(logits), labels, wanted_sums, weights}, exact(seed),
                                        wanted_gradient);
  const std::vector<double> expected = read(wanted_gradient);
  double largest = 0;
  for (const double g : expected) largest = std::max(largest, std::abs(g));
  expect_near(gradient, expected, 2e-6 * largest, "gradient of " + where);
  expect_margins(gradient, where);
}

std::vector<SegmentationLossArgs> loss_arguments() {
  return {{},
          {.dice_weight = 0},
          {.dice_weight = 0, .label_smoothing = 0.1},
          {.ce_weight = 0, .dice_background = true},
          {.ce_weight = 0.5, .dice_weight = 2, .dice_batch = true},
          {.dice_background = true, .dice_squared = true},
          {.dice_batch = true, .dice_background = true, .has_ignore_label = true, .ignore_label = 1},
          {.gamma = 2},
          {.activation = LossActivation::kSigmoid},
          {.has_ignore_label = true,
           .ignore_label = 1,
           .activation = LossActivation::kSigmoid,
           .gamma = 1.5,
           .alpha = 0.25},
          {.dice_background = true, .overlap = OverlapLoss::kTversky, .tversky_alpha = 0.3},
          {.dice_batch = true, .overlap = OverlapLoss::kGeneralizedDice}};
}

TEST_P(LoopsLoss, LossAndGradientMatchTheReference) {
  for (const SegmentationLossArgs& args : loss_arguments())
    for (const DType dtype : kDTypes)
      for (const Layout layout : {Layout::kPacked, Layout::kPitched})
        for (const std::int64_t rows : {1, 3, 17, 300})
          for (const std::int64_t classes : {2, 3, 5, 17})
            for (const bool has_weights : {false, true})
              check_loss(loops(), {Shape{2, classes, rows}, dtype, layout, args, has_weights});
  check_loss(loops(),
             {Shape{5, 1500}, DType::kF16, Layout::kPacked, {.dice_weight = 0, .label_smoothing = 0.2}});
  check_loss(loops(), {Shape{1, 6, 24, 25, 26}, DType::kF16, Layout::kPacked, {}});
  check_loss(loops(), {Shape{2, 3, 77},
                       DType::kF32,
                       Layout::kPacked,
                       {.label_smoothing = 0.1, .class_weights = {0.5, 0, 2}}});
  check_loss(loops(), {Shape{2, 3, 77},
                       DType::kF32,
                       Layout::kPacked,
                       {.activation = LossActivation::kSigmoid, .class_weights = {0.5, 3, 2}}});
  check_loss(loops(),
             {Shape{2, 1, 333}, DType::kF16, Layout::kPacked, {.activation = LossActivation::kSigmoid}});
}

// Weight 1 changes no bit; weight 0 is an ignored voxel, whatever its label and logits are.
TEST_P(LoopsLoss, VoxelWeights) {
  const Tensor logits = make(Shape{1, 2, 4}, DType::kF32, {0.5, -1, 2, -3, 1.5, 0.25, kInfinity, -kInfinity});
  const Tensor labels = labels_of(Shape{1, 4}, {0, 1, 1, 99}), ignored = labels_of(Shape{1, 4}, {0, 1, 1, 7});
  const auto weights = [](double a, double b, double c, double d) {
    return make(Shape{1, 1, 4}, DType::kF32, {a, b, c, d});
  };
  for (SegmentationLossArgs args : loss_arguments()) {
    const auto run = [&](const Tensor& of, const Tensor& voxel_weights) {
      const Tensor sums(Shape{1, 8}, DType::kF64), loss = make(Shape{1}, DType::kF32);
      const Tensor gradient = make(Shape{1, 2, 4}, DType::kF32);
      loops().segmentation_loss(args, {logits, of, sums, voxel_weights}, loss);
      loops().segmentation_loss_backward(args, {logits, of, sums, voxel_weights},
                                         make(Shape{1}, DType::kF32, {8.0}), gradient);
      std::vector<double> all = read(gradient);
      all.push_back(read(loss)[0]);
      return all;
    };
    args.has_ignore_label = true;
    args.ignore_label = 7;
    const std::vector<double> wanted = run(ignored, {});
    EXPECT_TRUE(std::isfinite(wanted.back()));
    EXPECT_EQ(run(ignored, weights(1, 1, 1, 1)), wanted);
    EXPECT_EQ(run(labels, weights(1, 1, 1, 0)), wanted);
    EXPECT_NE(run(labels, weights(1, 2, 1, 0)), wanted);
  }
}

// PyTorch: d clamp_min(x, floor) / dx is 0 below the floor. smooth = 0 and a class neither predicted nor
// present.
TEST_P(LoopsLoss, ClampedDenominatorHasNoGradient) {
  const Tensor logits = make(Shape{1, 2, 3}, DType::kF32, {0, -60, 0, -60, 0, -60});
  const Tensor labels = labels_of(Shape{1, 3}, {0, 0, 0});
  const SegmentationLossArgs args{.ce_weight = 0, .smooth = 0};
  const Tensor sums(Shape{1, 8}, DType::kF64), loss = make(Shape{1}, DType::kF32);
  loops().segmentation_loss(args, {logits, labels, sums}, loss);
  EXPECT_EQ(read(loss)[0], 0);
  const Tensor gradient = make(Shape{1, 2, 3}, DType::kF32);
  loops().segmentation_loss_backward(args, {logits, labels, sums}, make(Shape{1}, DType::kF32, {1.0}),
                                     gradient);
  expect_near(gradient, std::vector<double>(6, 0.0), 0, "gradient");
}

// The gradient of an ignored voxel is 0 even where its logits are not finite; an impossible class has none
// either.
TEST_P(LoopsLoss, GradientOfIgnoredAndImpossible) {
  const Tensor logits = make(Shape{1, 2, 2}, DType::kF32, {std::nan(""), 1, 0, -kInfinity});
  const Tensor labels = labels_of(Shape{1, 2}, {9, 0});
  const SegmentationLossArgs args{.has_ignore_label = true, .ignore_label = 9};
  const Tensor sums(Shape{1, 8}, DType::kF64), loss = make(Shape{1}, DType::kF32);
  loops().segmentation_loss(args, {logits, labels, sums}, loss);
  EXPECT_TRUE(std::isfinite(read(loss)[0]));
  const Tensor gradient = make(Shape{1, 2, 2}, DType::kF32);
  loops().segmentation_loss_backward(args, {logits, labels, sums}, make(Shape{1}, DType::kF32, {1.0}),
                                     gradient);
  expect_near(gradient, std::vector<double>(4, 0.0), 0, "gradient");
}

// amp.md 3.2: (p - y) / N with N = 128^3 and S = 2^16 survives FP16: its step is 2^-24 * 2^5 = 2^-19 in p -
// y.
TEST_P(LoopsLoss, ScaledGradientSurvivesFp16) {
  const std::int64_t voxels = 128 * 128 * 128;
  const Tensor logits(Shape{1, 2, voxels}, DType::kF16), labels(Shape{1, voxels}, DType::kI32);
  logits.set_zero();
  labels.set_zero();
  const Tensor sums(Shape{1, 8}, DType::kF64), loss = make(Shape{1}, DType::kF32);
  const SegmentationLossArgs args{.dice_weight = 0};
  loops().segmentation_loss(args, {logits, labels, sums}, loss);
  EXPECT_NEAR(read(loss)[0], std::log(2.0), 1e-6);
  const Tensor gradient(logits.shape(), DType::kF16);
  loops().segmentation_loss_backward(args, {logits, labels, sums}, make(Shape{1}, DType::kF32, {65536.0}),
                                     gradient);
  for (std::int64_t i = 0; i < 2 * voxels; i += 2 * 65537) {
    EXPECT_EQ(load(gradient, i), -0x1p-6);
    EXPECT_EQ(load(gradient, i + 1), 0x1p-6);
  }
}

TEST_P(LoopsLoss, Softmax) {
  const auto reference = make_reference_backend();
  for (const DType dtype : kDTypes)
    for (const std::int64_t rows : {1, 3, 17, 1000})
      for (const std::int64_t channels : {1, 3, 5, 16, 17, 33, 1001})
        for (const Layout layout : {Layout::kPacked, Layout::kPitched}) {
          const Shape shape{rows, channels};
          if (shape.numel() > 60000) continue;
          const Tensor x = make(shape, dtype, random_values(shape.numel(), 42, 0, 5), layout);
          const Tensor y = make(shape, dtype, layout), wanted = exact(shape);
          loops().softmax_forward({}, x, y);
          reference->softmax_forward({}, exact(x), wanted);
          expect_near(y, read(wanted), 1e-6, describe(x));
          expect_margins(y, describe(x));
          const Tensor dy = make(shape, dtype, random_values(shape.numel(), 43), layout);
          const Tensor dx = make(shape, dtype, layout), wanted_dx = exact(shape);
          loops().softmax_backward({}, dy, y, dx);
          reference->softmax_backward({}, exact(dy), exact(y), wanted_dx);
          expect_near(dx, read(wanted_dx), 2e-6, describe(x));
          expect_margins(dx, describe(x));
        }
}

TEST_P(LoopsLoss, SoftmaxExtremes) {
  const Tensor y = make(Shape{4, 2}, DType::kF16);
  loops().softmax_forward(
      {}, make(Shape{4, 2}, DType::kF16, {65504, -65504, 0, -kInfinity, 11.1, 0, std::nan(""), 0}), y);
  const std::vector<double> p = read(y);
  EXPECT_EQ(p[0], 1);
  EXPECT_EQ(p[1], 0);
  EXPECT_EQ(p[2], 1);
  EXPECT_EQ(p[3], 0);
  EXPECT_NEAR(p[5], 1.51e-5, 1e-7);  // exp(11.1) itself overflows FP16
  EXPECT_TRUE(std::isnan(p[6]) && std::isnan(p[7]));
}

TEST_P(LoopsLoss, SameBitsForAnyNumberOfThreads) {
  const Shape shape{2, 5, 31, 33, 35};
  const Tensor logits = make(shape, DType::kF16, random_values(shape.numel(), 44));
  const Tensor labels(Shape{2, 31 * 33 * 35}, DType::kI32);
  for (std::int64_t i = 0; i < labels.numel(); ++i) store(labels, i, static_cast<double>(i % 5));
  std::vector<Tensor> results[2];
  for (const int threads : {1, 2}) {
    set_compute_threads(threads);
    const Tensor sums(Shape{2, 17}, DType::kF64), loss = make(Shape{1}, DType::kF32),
                                                  gradient = make(shape, DType::kF16);
    loops().segmentation_loss({}, {logits, labels, sums}, loss);
    loops().segmentation_loss_backward({}, {logits, labels, sums}, make(Shape{1}, DType::kF32, {256.0}),
                                       gradient);
    results[threads - 1] = {sums, loss, gradient};
  }
  for (std::size_t i = 0; i < results[0].size(); ++i)
    expect_same_bits(results[0][i], results[1][i], "result " + std::to_string(i));
}

TD_FOR_EACH_LEVEL(LoopsLoss);

}  // namespace
}  // namespace tandem::loops_test

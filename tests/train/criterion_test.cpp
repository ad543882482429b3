// From the job's `loss` to the function that is minimised: every name against its op, the weights of deep
// supervision, the ignored label, and what is refused.
#include "train/criterion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.h"
#include "core/ops/labels.h"
#include "core/ops/loss.h"
#include "core/ops/regression_loss.h"
#include "layers/models/unet3d.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Values = std::vector<double>;

LossOptions parse(const std::string& yaml) {
  LossOptions o;
  parse_options(parse_yaml_text(yaml, "job.yaml"), fields(o));
  return o;
}

class CriterionTest : public ::testing::Test {
 protected:
  CriterionTest() : tape_({}, false) {}

  Var logits(const Shape& shape = {2, 3, 4, 4, 4}, double step = 0.37) {
    Values values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(step * static_cast<double>(i)) * 2;
    return tape_.constant(Tensor::from_values(shape, values, DType::kF32));
  }
  Var labels(bool ignored = false) {
    Values values(2 * 64);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = ignored && i % 7 == 0 ? kUnlabelled : static_cast<double>((i * i + 1) % 3);
    return tape_.constant(Tensor::from_values(Shape{2, 1, 4, 4, 4}, values, DType::kI32));
  }
  static double value(const Var& loss) { return loss.value().to_values()[0]; }
  double value(const std::string& yaml) { return value(make_criterion(parse(yaml), 3)(logits(), labels())); }

  Tape tape_;
};

TEST_F(CriterionTest, EveryNameIsItsOp) {
  const Var x = logits(), y = labels();
  const double dice = value(soft_dice(x, y)), ce = value(cross_entropy(x, y));
  EXPECT_NEAR(value("name: dice_ce\n"), dice + ce, 1e-6);
  EXPECT_NEAR(value("name: dice\ndice: {weight: 2}\n"), 2 * dice, 1e-6);
  EXPECT_EQ(value("name: ce\nce: {class_weights: [1, 2, 3], label_smoothing: 0.1}\n"),
            value(cross_entropy(x, y, {.label_smoothing = 0.1, .class_weights = {1, 2, 3}})));
  EXPECT_EQ(value("name: bce\nbce: {pos_weight: [1, 2, 3]}\n"),
            value(bce_with_logits(x, y, {.pos_weight = {1, 2, 3}})));
  const double sigmoid_dice = value(soft_dice(x, y, {.activation = LossActivation::kSigmoid}));
  EXPECT_NEAR(value("name: dice_bce\nbce: {weight: 0.5}\n"),
              sigmoid_dice + 0.5 * value(bce_with_logits(x, y)), 1e-6);
  EXPECT_EQ(value("name: focal\nfocal: {gamma: 1.5}\n"), value(focal_loss(x, y, {.gamma = 1.5})));
  EXPECT_EQ(value("name: focal\nactivation: sigmoid\nfocal: {alpha: 0.25}\n"),
            value(focal_loss(x, y, {.activation = LossActivation::kSigmoid, .alpha = 0.25})));
  EXPECT_NEAR(value("name: dice_focal\nfocal: {weight: 3}\n"), dice + 3 * value(focal_loss(x, y)), 1e-6);
  EXPECT_EQ(value("name: generalized_dice\ndice: {background: true}\n"),
            value(generalized_dice(x, y, {.background = true})));
  EXPECT_NEAR(value("name: generalized_dice_ce\n"), value(generalized_dice(x, y)) + ce, 1e-6);
  const double index = value(tversky(x, y, {.alpha = 0.4, .beta = 0.6}));
  EXPECT_EQ(value("name: tversky\ntversky: {alpha: 0.4, beta: 0.6}\n"), index);
  EXPECT_NEAR(value("name: tversky_ce\ntversky: {alpha: 0.4, beta: 0.6}\n"), index + ce, 1e-6);
}

// Mean over voxels and classes of the error of the probabilities.
TEST_F(CriterionTest, ErrorsCompareProbabilitiesWithOneHot) {
  const Values p = softmax(logits()).value().to_values(), label = labels().value().to_values();
  double square = 0, absolute = 0, smooth = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const std::size_t n = i / 192, c = i / 64 % 3, v = i % 64;
    const double d = std::abs(p[i] - (label[n * 64 + v] == static_cast<double>(c) ? 1 : 0));
    square += d * d / 384;
    absolute += d / 384;
    smooth += (d < 0.25 ? d * d / 0.5 : d - 0.125) / 384;
  }
  EXPECT_NEAR(value("name: mse\n"), square, 1e-6);
  EXPECT_NEAR(value("name: l1\n"), absolute, 1e-6);
  EXPECT_NEAR(value("name: smooth_l1\nsmooth_l1: {beta: 0.25}\n"), smooth, 1e-6);
}

TEST_F(CriterionTest, IgnoredLabelLeavesTheLoss) {
  const Criterion criterion = make_criterion(parse("name: dice_ce\n"), 3, kUnlabelled);
  EXPECT_EQ(value(criterion(logits(), labels(true))),
            value(dice_ce(logits(), labels(true), {.dice = {.ignore_label = kUnlabelled}})));
  EXPECT_THROW(make_criterion(parse("name: mse\n"), 3, kUnlabelled), Error);
}

// medical.md 2.2: the coarsest has weight 0.
TEST_F(CriterionTest, WeightsOfDeepSupervision) {
  EXPECT_EQ(deep_supervision_weights(1), (Values{1}));
  EXPECT_EQ(deep_supervision_weights(2), (Values{1, 0}));
  const auto expect = [](const Values& wanted) {
    const Values got = deep_supervision_weights(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 5e-5);
  };
  expect({.6667, .3333, 0});
  expect({.5714, .2857, .1429, 0});
  expect({.5333, .2667, .1333, .0667, 0});
}

TEST_F(CriterionTest, CoarseOutputsMeetCoarseLabels) {
  const Var main = logits(), half = logits({2, 3, 2, 2, 2}, 0.7), quarter = logits({2, 3, 1, 1, 1}, 0.9);
  const Criterion criterion = make_criterion(parse("name: ce\n"), 3);
  Values coarse;  // nearest-exact by 2: voxels 1 and 3 of each axis
  const Values fine = labels().value().to_values();
  for (std::size_t n : {0, 1})
    for (std::size_t z : {1, 3})
      for (std::size_t y : {1, 3})
        for (std::size_t x : {1, 3}) coarse.push_back(fine[((n * 4 + z) * 4 + y) * 4 + x]);
  const Var half_labels = tape_.constant(Tensor::from_values(Shape{2, 1, 2, 2, 2}, coarse, DType::kI32));
  const double expected =
      (value(cross_entropy(main, labels())) + 0.5 * value(cross_entropy(half, half_labels))) / 1.5;
  EXPECT_NEAR(value(criterion(Outputs(main, {half, quarter}), labels())), expected, 1e-6);
  EXPECT_EQ(value(criterion(Outputs(main, {half}), labels())), value(cross_entropy(main, labels())));
}

// Weights per voxel go with their labels to every output: the second sample does not count.
TEST_F(CriterionTest, WeightsPerVoxelReachEveryOutput) {
  const Criterion criterion = make_criterion(parse("name: ce\n"), 3);
  const Shape shape{2, 1, 4, 4, 4};
  Values first(static_cast<std::size_t>(shape.numel()), 1.0), unlabelled = labels().value().to_values();
  for (std::size_t i = first.size() / 2; i < first.size(); ++i) {
    first[i] = 0;
    unlabelled[i] = kUnlabelled;
  }
  const Outputs outputs(logits(), {logits({2, 3, 2, 2, 2}, 0.7), logits({2, 3, 1, 1, 1}, 0.9)});
  const Criterion ignoring = make_criterion(parse("name: ce\n"), 3, kUnlabelled);
  EXPECT_EQ(value(criterion(outputs, {labels(), Tensor::from_values(shape, first, DType::kF32)})),
            value(ignoring(outputs, tape_.constant(Tensor::from_values(shape, unlabelled, DType::kI32)))));
}

// The voxels of a 4^3 volume that one of half its size takes: 1 and 3 of each axis.
std::vector<std::size_t> coarse_places() {
  std::vector<std::size_t> places;
  for (std::size_t z : {1, 3})
    for (std::size_t y : {1, 3})
      for (std::size_t x : {1, 3}) places.push_back((z * 4 + y) * 4 + x);
  return places;
}
// values [n * 64] -> [n * 8].
Values coarse_of(const Values& fine) {
  Values coarse;
  for (std::size_t first = 0; first < fine.size(); first += 64)
    for (const std::size_t place : coarse_places()) coarse.push_back(fine[first + place]);
  return coarse;
}

// dice_bce of independent channels, written out: x and g [2, 3, voxels].
double dice_bce_of_regions(const Values& x, const Values& g) {
  const std::size_t voxels = x.size() / 6;
  double bce = 0, dice = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    double both = 0, predicted = 0, expected = 0;
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t v = 0; v < voxels; ++v) {
        const std::size_t i = (n * 3 + c) * voxels + v;
        const double p = 1 / (1 + std::exp(-x[i]));
        bce -= (g[i] * std::log(p) + (1 - g[i]) * std::log(1 - p)) / static_cast<double>(x.size());
        both += p * g[i];
        predicted += p;
        expected += g[i];
      }
    dice += (2 * both + 1e-5) / (predicted + expected + 1e-5) / 3;
  }
  return bce - dice;
}

// Regions that overlap: every output has a channel per region, and so have the labels brought to its size.
TEST_F(CriterionTest, DeepSupervisionOfRegions) {
  const Var main = logits(), half = logits({2, 3, 2, 2, 2}, 0.7), quarter = logits({2, 3, 1, 1, 1}, 0.9);
  Values targets(2 * 3 * 64);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = (i * i + i / 64) % 5 < 2 ? 1 : 0;
  const Var label = tape_.constant(Tensor::from_values(Shape{2, 3, 4, 4, 4}, targets, DType::kI32));
  const Criterion criterion = make_criterion(parse("name: dice_bce\n"), 3);
  const double at_main = dice_bce_of_regions(main.value().to_values(), targets);
  const double at_half = dice_bce_of_regions(half.value().to_values(), coarse_of(targets));
  ASSERT_GT(std::abs(at_main - at_half), 1e-2);
  EXPECT_NEAR(value(criterion(Outputs(main), label)), at_main, 1e-6);
  EXPECT_NEAR(value(criterion(Outputs(main, {half, quarter}), label)), (2 * at_main + at_half) / 3, 1e-6);
}

// dice_ce with weights per voxel, written out: x [2, 3, voxels], label and weight [2, voxels]; a voxel whose
// label is kUnlabelled counts nowhere, whatever its weight.
double weighted_dice_ce(const Values& x, const Values& label, const Values& weight) {
  const std::size_t voxels = label.size() / 2;
  double nll = 0, total = 0;
  std::array<double, 3> both{}, predicted{}, expected{};
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t v = 0; v < voxels; ++v) {
      const std::size_t voxel = n * voxels + v;
      if (label[voxel] == kUnlabelled) continue;
      const auto y = static_cast<std::size_t>(label[voxel]);
      std::array<double, 3> p{};
      double sum = 0;
      for (std::size_t c = 0; c < 3; ++c) sum += p[c] = std::exp(x[(n * 3 + c) * voxels + v]);
      for (std::size_t c = 0; c < 3; ++c) predicted[c] += weight[voxel] * p[c] / sum;
      both[y] += weight[voxel] * p[y] / sum;
      expected[y] += weight[voxel];
      nll -= weight[voxel] * std::log(p[y] / sum);
      total += weight[voxel];
    }
  double dice = 0;
  for (const std::size_t c : {1, 2})  // without the background
    dice += (2 * both[c] + 1e-5) / (predicted[c] + expected[c] + 1e-5) / 2;
  return nll / total - dice;
}

TEST_F(CriterionTest, WeightsPerVoxelBesideAnIgnoredLabel) {
  const Var main = logits(), half = logits({2, 3, 2, 2, 2}, 0.7), quarter = logits({2, 3, 1, 1, 1}, 0.9);
  const Values label = labels(true).value().to_values();
  Values weight(label.size());
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = 0.25 * static_cast<double>(i * 3 % 5);
  const Criterion criterion = make_criterion(parse("name: dice_ce\n"), 3, kUnlabelled);
  const Target target(labels(true), Tensor::from_values(Shape{2, 1, 4, 4, 4}, weight, DType::kF32));
  const double at_main = weighted_dice_ce(main.value().to_values(), label, weight);
  const double at_half = weighted_dice_ce(half.value().to_values(), coarse_of(label), coarse_of(weight));
  // Neither the weights nor the ignored voxels may be overlooked: each moves the value.
  ASSERT_GT(std::abs(at_main - weighted_dice_ce(main.value().to_values(), label, Values(128, 1.0))), 1e-3);
  ASSERT_GT(
      std::abs(at_main - weighted_dice_ce(main.value().to_values(), labels().value().to_values(), weight)),
      1e-3);
  EXPECT_NEAR(value(criterion(Outputs(main), target)), at_main, 1e-6);
  EXPECT_NEAR(value(criterion(Outputs(main, {half, quarter}), target)), (2 * at_main + at_half) / 3, 1e-6);
}

TEST_F(CriterionTest, RefusesWhatDoesNotBelong) {
  EXPECT_THROW(parse("name: ce\ndice: {batch: true}\n"), Error);
  EXPECT_THROW(parse("name: bce\nactivation: softmax\n"), Error);
  EXPECT_THROW(parse("name: focal\nfocal: {alpha: 0.5}\n"), Error);
  EXPECT_THROW(parse("name: dise\n"), Error);
  try {
    make_criterion(parse("name: ce\nce: {class_weights: [1, 2]}\n"), 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_EQ(error.text(),
              "[loss] ce.class_weights: got 2 values, expected 3: one per class of data.labels");
  }
}

// defect.md 2.2: the root of N / (K n), mean 1.
TEST_F(CriterionTest, WeightsMayBeARuleOfTheData) {
  const LossOptions o = parse("name: ce\nce: {class_weights: sqrt}\n");
  ASSERT_TRUE(needs_class_counts(o));
  EXPECT_FALSE(needs_class_counts(parse("name: ce\nce: {class_weights: [1, 2, 3]}\n")));
  const std::vector<double> weights = loss_args(with_class_counts(o, {900, 90, 10}), {}).class_weights;
  EXPECT_NEAR(weights.at(0), 0.2197945, 1e-7);
  EXPECT_NEAR(weights.at(2), 2.0851541, 1e-7);
  EXPECT_THROW(with_class_counts(o, {900, 0, 10}), Error);
  LossOptions copy = o;
  EXPECT_THAT(emit_yaml(fields(copy)), HasSubstr("class_weights: sqrt"));
  copy = parse("name: focal\nfocal: {class_weights: [0.5, 1, 2]}\n");
  EXPECT_THAT(emit_yaml(fields(copy)), HasSubstr("class_weights: [0.5, 1, 2]"));
  EXPECT_THROW(parse("name: ce\nce: {class_weights: most}\n"), Error);
  EXPECT_THROW(parse("name: ce\nce: {class_weights: [1, -2, 3]}\n"), Error);
  EXPECT_THROW(parse("name: bce\nbce: {pos_weight: sqrt}\n"), Error);
}

// Voxels that nobody labelled are no background.
TEST_F(CriterionTest, CountsOfClassesLeaveIgnoredVoxelsOut) {
  const testing::TempFolder folder;
  testing::write_counting_case(folder / "a.h5", {1, 2, 5},
                               [](const Index3& at) { return static_cast<std::int32_t>(at[2]); });
  DataOptions data = testing::plain_options({(folder / "a.h5").string()});
  data.labels.push_back({"c", {3}});
  data.ignore_label = 4;
  const PatchDataset dataset(data, {.size = {1, 2, 2}}, {});
  EXPECT_THAT(count_classes(dataset, 4, true), ElementsAre(2, 2, 2, 2));
}

TEST_F(CriterionTest, OffsetMakesZeroPerfect) {
  EXPECT_EQ(loss_offset(parse("name: dice_ce\ndice: {weight: 2}\n")), 2);
  EXPECT_EQ(loss_offset(parse("name: tversky\n")), 1);
  EXPECT_EQ(loss_offset(parse("name: bce\n")), 0);
}

// unet3d gives a head per decoder level in training, and one elsewhere.
TEST_F(CriterionTest, UNet3dGivesItsHeads) {
  UNet3d net({.features = {4, 6, 8, 8}, .deep_supervision = true}, 1, 3);
  const auto parameters = net.parameters();
  ParamStore store(parameters, {.seed = 1}, {});
  const Tensor image = Tensor::zeros(Shape{1, 1, 16, 16, 16}, DType::kF32);
  Tape training(Context{});
  const Outputs outputs = net(training.constant(image));
  ASSERT_EQ(outputs.auxiliary.size(), 2u);
  EXPECT_EQ(outputs.main.shape(), (Shape{1, 3, 16, 16, 16}));
  EXPECT_EQ(outputs.auxiliary[0].shape(), (Shape{1, 3, 8, 8, 8}));
  EXPECT_EQ(outputs.auxiliary[1].shape(), (Shape{1, 3, 4, 4, 4}));
  const Tensor label = Tensor::zeros(Shape{1, 1, 16, 16, 16}, DType::kI32);
  training.backward(make_criterion(parse("name: dice_ce\n"), 3)(outputs, training.constant(label)));
  const auto moved = [&](const char* name) {
    const ParamSegment& segment = *store.find(name);
    const Values g = ParamStore::view(segment, store.region(segment.region).gradient).to_values();
    return std::ranges::any_of(g, [](double v) { return v != 0; });
  };
  EXPECT_TRUE(moved("head0.bias") && moved("head1.bias"));
  EXPECT_FALSE(moved("head2.bias")) << "the coarsest head has weight 0";
  Tape evaluation({.training = false}, false);
  EXPECT_TRUE(net(evaluation.constant(image)).auxiliary.empty());
}

// A dry run prepares one case of those that go to the disk; a class that it lacks may be in the others.
TEST_F(CriterionTest, ADryRunDoesNotMissClassesOfCasesThatItLeavesOut) {
  const testing::TempFolder folder;
  testing::write_counting_case(folder / "a.h5", {4, 4, 4},
                               [](const Index3& at) { return at[0] == 0 ? 1 : 0; });
  testing::write_counting_case(folder / "b.h5", {4, 4, 4},
                               [](const Index3& at) { return at[0] == 0 ? 2 : 0; });
  JobOptions job;
  job.data = testing::plain_options({(folder / "a.h5").string(), (folder / "b.h5").string()});
  job.data.cache = CacheKind::kDisk;
  job.data.crop_nonzero = true;  // needs the whole case, so each is prepared
  job.loss = parse("{name: ce, ce: {class_weights: inverse}}");
  const PatchDataset dataset(job.data, {.size = {1, 2, 2}}, {}, true);
  EXPECT_TRUE(dataset.is_partial());
  EXPECT_EQ(dataset.cases().size(), 1u);
  make_criterion(job, dataset);
}

}  // namespace
}  // namespace tandem

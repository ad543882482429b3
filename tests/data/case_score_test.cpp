// Scores of cases and classes: medical.md 2.8's vectors and empty-mask table, regions, voxels without a
// label, means with n.
#include "data/case_score.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

using Labels = std::vector<std::int32_t>;

const MetricOptions kAll{.metrics = {"hd", "hd95", "hd95_pooled", "assd", "nsd"}};

std::vector<ClassScore> scores_of(const Labels& prediction, const Labels& reference, const Index3& shape,
                                  const MetricOptions& options = kAll) {
  const std::int64_t classes = 3;
  return score_case({shape, {3, 1, 1}, classes, prediction, reference},
                    regions_of_classes({"background", "a", "b"}), options);
}

// A 6^3 cube of class `cls` in 12^3.
Labels cube(std::int64_t first, std::int32_t cls) {
  Labels labels;
  for (std::int64_t z = 0; z < 12; ++z)
    for (std::int64_t y = 0; y < 12; ++y)
      for (std::int64_t x = 0; x < 12; ++x)
        labels.push_back(z >= first && z < first + 6 && y >= 2 && y < 8 && x >= 2 && x < 8 ? cls : 0);
  return labels;
}
constexpr Index3 kCubeShape{12, 12, 12};

TEST(CaseScore, CubeVectors) {
  const ClassScore shifted = scores_of(cube(3, 1), cube(2, 1), kCubeShape)[1];
  EXPECT_NEAR(shifted.dice, .833333, 5e-7);
  EXPECT_NEAR(shifted.iou, .714286, 5e-7);
  EXPECT_EQ(shifted.hd, 3);
  EXPECT_EQ(shifted.hd95, 3);
  EXPECT_EQ(shifted.hd95_pooled, 3);
  EXPECT_NEAR(shifted.assd, .842105, 5e-7);
  EXPECT_NEAR(shifted.nsd, .736842, 5e-7);
  EXPECT_EQ(shifted.counts, (OverlapCounts{180, 36, 36}));
  EXPECT_EQ(shifted.status(), "scored");
  MetricOptions wide = kAll;
  wide.nsd_mm = 3;
  EXPECT_EQ(scores_of(cube(3, 1), cube(2, 1), kCubeShape, wide)[1].nsd, 1);
  Labels stray = cube(2, 2);
  stray[(10 * 12 + 10) * 12 + 10] = 2;
  EXPECT_NEAR(scores_of(stray, cube(2, 2), kCubeShape)[2].dice, .997691, 5e-7);
}

TEST(CaseScore, BallsOfTwoSizes) {
  Labels large, small;
  for (int z = 0; z < 24; ++z)
    for (int y = 0; y < 24; ++y)
      for (int x = 0; x < 24; ++x) {
        const int d = (z - 12) * (z - 12) + (y - 12) * (y - 12) + (x - 12) * (x - 12);
        large.push_back(d <= 64);
        small.push_back(d <= 36);
      }
  EXPECT_EQ(std::count(large.begin(), large.end(), 1), 2109);
  EXPECT_EQ(std::count(small.begin(), small.end(), 1), 925);
  EXPECT_NEAR(scores_of(small, large, {24, 24, 24})[1].dice, .609756, 5e-7);
}

TEST(CaseScore, CountsPerClass) {
  const Labels prediction{0, 1, 2, 2, 1, 0}, reference{0, 1, 1, 2, 0, 2};
  const ConfusionCounts counts({{1, 1, 6}, {1, 1, 1}, 4, prediction, reference});
  for (const std::int32_t c : {0, 1, 2}) EXPECT_EQ(counts.of({c}), (OverlapCounts{1, 1, 1}));
  EXPECT_EQ(counts.of({3}), OverlapCounts{});
  EXPECT_EQ(counts.of({1, 2}), (OverlapCounts{3, 1, 1}));
}

TEST(CaseScore, SurfacesAreMeasuredOnlyWhenAskedFor) {
  const ClassScore score = scores_of(cube(3, 1), cube(2, 1), kCubeShape, {.metrics = {"dice"}})[1];
  EXPECT_NEAR(score.iou, .714286, 5e-7);
  EXPECT_TRUE(std::isnan(score.hd95));
  EXPECT_TRUE(std::isnan(scores_of(cube(3, 1), cube(2, 1), kCubeShape)[0].hd95));  // of the background: never
}

// The four rows of medical.md 2.8.
TEST(CaseScore, EmptyMasksFollowThePolicy) {
  const Labels none(1728, 0);
  const double diagonal = std::hypot(36.0, 12.0, 12.0);
  for (const EmptyPolicy policy : {EmptyPolicy::kWorst, EmptyPolicy::kSkip}) {
    MetricOptions options = kAll;
    options.empty = policy;
    const ClassScore absent = scores_of(none, none, kCubeShape, options)[1];
    EXPECT_EQ(absent.status(), "absent");
    EXPECT_TRUE(std::isnan(absent.dice) && std::isnan(absent.hd95) && std::isnan(absent.nsd));
    const ClassScore missed = scores_of(none, cube(2, 1), kCubeShape, options)[1];
    EXPECT_EQ(missed.status(), "missed_case");
    EXPECT_EQ(missed.dice, 0);
    EXPECT_EQ(missed.iou, 0);
    EXPECT_EQ(missed.hd95, diagonal);
    EXPECT_EQ(missed.assd, diagonal);
    EXPECT_EQ(missed.nsd, 0);
    const ClassScore false_positive = scores_of(cube(2, 1), none, kCubeShape, options)[1];
    EXPECT_EQ(false_positive.status(), "false_positive_case");
    if (policy == EmptyPolicy::kWorst) {
      EXPECT_EQ(false_positive.dice, 0);
      EXPECT_EQ(false_positive.hd, diagonal);
      EXPECT_EQ(false_positive.nsd, 0);
    } else {
      EXPECT_FALSE(false_positive.scored());
      EXPECT_TRUE(std::isnan(false_positive.dice) && std::isnan(false_positive.hd) &&
                  std::isnan(false_positive.nsd));
    }
  }
}

TEST(CaseScore, ARegionIsTheUnionOfItsClasses) {
  // Class 1 in the reference is class 2 in the prediction: wrong per class, right as a region.
  const Labels prediction = cube(2, 2), reference = cube(2, 1);
  const std::vector<ClassScore> scores =
      score_case({kCubeShape, {1, 1, 1}, 3, prediction, reference},
                 {{"background", {0}}, {"a", {1}}, {"whole", {1, 2}}}, kAll);
  EXPECT_EQ(scores[1].dice, 0);
  EXPECT_EQ(scores[2].dice, 1);
  EXPECT_EQ(scores[2].hd95, 0);
  EXPECT_EQ(scores[2].nsd, 1);
}

TEST(CaseScore, VoxelsWithoutALabelAreLeftOut) {
  Labels prediction = cube(2, 1);
  Labels reference = cube(2, 1);
  prediction[(10 * 12 + 10) * 12 + 10] = 1;
  EXPECT_LT(scores_of(prediction, reference, kCubeShape)[1].dice, 1);
  reference[(10 * 12 + 10) * 12 + 10] = -1;
  const ClassScore score = scores_of(prediction, reference, kCubeShape)[1];
  EXPECT_EQ(score.dice, 1);
  EXPECT_EQ(score.hd, 0);
  EXPECT_EQ(score.counts, (OverlapCounts{216, 0, 0}));
}

TEST(CaseScore, VoxelsWithoutALabelHaveNoSurface) {
  // The second voxel is predicted and unlabelled, between labelled ones: with it hd would be 1.
  const Labels prediction{1, 1, 0, 0, 0, 0, 1}, reference{1, -1, 0, 0, 0, 0, 1};
  EXPECT_EQ(scores_of(prediction, reference, {1, 1, 7})[1].hd, 0);
}

ClassScore counted(const OverlapCounts& counts) { return score_class(counts, EmptyPolicy::kWorst); }

TEST(SegmentationScores, MeansSkipWhatIsAbsentAndSayHowMany) {
  SegmentationScores scores({"background", "a", "b", "never"}, {});
  const auto add = [&](const std::string& id, const OverlapCounts& a, const OverlapCounts& b) {
    scores.add_case({.id = id, .scores = {counted({9, 0, 0}), counted(a), counted(b), counted({})}});
  };
  add("one", {2, 1, 1}, {});         // a: dice 2/3, iou 1/2; b absent
  add("two", {0, 0, 3}, {4, 0, 0});  // a missed; b 1
  add("three", {}, {0, 2, 0});       // a absent; b false positive: 0
  const ClassSummary a = scores.summary(1), b = scores.summary(2), never = scores.summary(3);
  EXPECT_NEAR(a.dice, 1.0 / 3, 1e-12);
  EXPECT_NEAR(a.iou, 0.25, 1e-12);
  EXPECT_EQ(a.scored, 2);
  EXPECT_EQ(a.absent, 1);
  EXPECT_EQ(a.missed_cases, 1);
  EXPECT_NEAR(b.dice, 0.5, 1e-12);
  EXPECT_EQ(b.false_positive_cases, 1);
  EXPECT_EQ(never.scored, 0);
  EXPECT_EQ(never.absent, 3);
  EXPECT_TRUE(std::isnan(never.dice));
  EXPECT_NEAR(scores.mean_dice(), (1.0 / 3 + 0.5) / 2, 1e-12);  // "never" excluded, background too
  EXPECT_NEAR(scores.mean(&MetricValues::iou), (0.25 + 0.5) / 2, 1e-12);
  EXPECT_TRUE(std::isnan(scores.mean(&MetricValues::hd95)));
}

TEST(SegmentationScores, ChosenMetricsKeepTheTablesOrderAndTheOverlap) {
  std::vector<std::string> names;
  for (const MetricRow& row : chosen_metrics({"nsd", "hd95"})) names.emplace_back(row.name);
  EXPECT_EQ(names, (std::vector<std::string>{"dice", "iou", "hd95", "nsd"}));
}

}  // namespace
}  // namespace tandem

// Clean-up steps, and when they are accepted.
#include "data/postprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using Labels = std::vector<std::int32_t>;
const std::vector<std::string> kNames{"background", "a", "b"};

Postprocess learnt(const std::vector<std::pair<Labels, Labels>>& cases) {
  PostprocessLearner learner(regions_of_classes(kNames), EmptyPolicy::kWorst);
  for (const auto& [prediction, reference] : cases)
    learner.add_case(
        {{1, 1, static_cast<std::int64_t>(prediction.size())}, {1, 1, 1}, 3, prediction, reference});
  return learner.result().steps;
}

TEST(Postprocess, ForegroundFirstThenClasses) {
  Labels labels{1, 0, 1, 2, 0, 2, 0};
  EXPECT_EQ(apply({.foreground = true, .classes = {}}, labels, {1, 1, 7}), 2);
  EXPECT_THAT(labels, ElementsAre(0, 0, 1, 2, 0, 0, 0));
  Labels other{1, 0, 1, 1, 0, 2, 0};
  EXPECT_EQ(apply(keep_largest_of_all(3), other, {1, 1, 7}), 1);
  EXPECT_THAT(other, ElementsAre(0, 0, 1, 1, 0, 2, 0));
}

TEST(Postprocess, AStrayPieceOfOneClassIsRemovedWhereThatHelps) {
  // a has a stray voxel, b truly has two parts: only a is cleaned.
  const Labels prediction{1, 1, 0, 1, 0, 2, 2, 0, 2}, reference{1, 1, 0, 0, 0, 2, 2, 0, 2};
  const Postprocess steps = learnt({{prediction, reference}});
  EXPECT_FALSE(steps.foreground);  // the parts of b would go
  EXPECT_THAT(steps.classes, ElementsAre(1));
}

TEST(Postprocess, TheWholeForegroundIsCleanedWhereNoClassFalls) {
  // a and b touch; strays of both stand apart.
  const Labels prediction{1, 1, 2, 2, 0, 1, 2, 0}, reference{1, 1, 2, 2, 0, 0, 0, 0};
  const Postprocess steps = learnt({{prediction, reference}});
  EXPECT_TRUE(steps.foreground);
  EXPECT_TRUE(steps.classes.empty());  // nothing is left to gain
}

TEST(Postprocess, NothingIsDoneWithoutGainOrWhereAClassFalls) {
  const Labels same{1, 1, 0, 2, 2};
  EXPECT_TRUE(learnt({{same, same}}).empty());
  // Over two cases: a gains in the first and loses more in the second.
  const Labels stray{1, 1, 1, 1, 0, 1, 0}, without{1, 1, 1, 1, 0, 0, 0}, parts{1, 1, 0, 1, 0, 0, 0};
  EXPECT_TRUE(learnt({{stray, without}, {parts, parts}}).empty());
}

TEST(Postprocess, SaysWhatItGained) {
  PostprocessLearner learner(regions_of_classes(kNames), EmptyPolicy::kWorst);
  const Labels prediction{1, 1, 0, 1, 0, 2, 2, 0, 2}, reference{1, 1, 0, 0, 0, 2, 2, 0, 2};
  learner.add_case({{1, 1, 9}, {1, 1, 1}, 3, prediction, reference});
  EXPECT_NEAR(learner.result().dice_before, (0.8 + 1) / 2, 1e-12);
  EXPECT_NEAR(learner.result().dice_after, 1, 1e-12);
  EXPECT_TRUE(
      std::isnan(PostprocessLearner(regions_of_classes(kNames), EmptyPolicy::kWorst).result().dice_after));
}

// Two nested regions: whole {a, b} and core {b}. What counts is their Dice, not that of the classes.
TEST(Postprocess, RegionsAreScoredAsTheyAre) {
  const std::vector<ScoredRegion> regions{{"background", {0}}, {"whole", {1, 2}}, {"core", {2}}};
  const auto learnt_of = [&](const Labels& prediction, const Labels& reference) {
    PostprocessLearner learner(regions, EmptyPolicy::kWorst);
    learner.add_case(
        {{1, 1, static_cast<std::int64_t>(prediction.size())}, {1, 1, 1}, 3, prediction, reference});
    return learner.result();
  };
  // A part of a stands where b should be: as a class a gains from its removal (2 of 3 right -> all), the
  // whole loses a voxel that is right.
  const Labels parted{1, 1, 0, 1, 2, 2}, truth{1, 1, 0, 2, 2, 2};
  EXPECT_THAT(learnt({{parted, truth}}).classes, ElementsAre(1));
  EXPECT_TRUE(learnt_of(parted, truth).steps.empty());
  // A stray of b lowers both regions: whole 2 * 4 / (5 + 4), core 2 * 2 / (3 + 2); without it both are 1.
  const PostprocessLearner::Result strays = learnt_of({1, 1, 2, 2, 0, 2}, {1, 1, 2, 2, 0, 0});
  EXPECT_FALSE(strays.steps.empty());
  EXPECT_NEAR(strays.dice_before, (8.0 / 9 + 4.0 / 5) / 2, 1e-12);
  EXPECT_EQ(strays.dice_after, 1);
  // Strays of both, and truly two parts of the whole: class by class, each on what the other gave.
  const PostprocessLearner::Result both = learnt_of({1, 1, 0, 2, 2, 0, 1, 0, 2}, {1, 1, 0, 2, 2, 0, 0, 0, 0});
  EXPECT_FALSE(both.steps.foreground);
  EXPECT_THAT(both.steps.classes, ElementsAre(1, 2));
  EXPECT_NEAR(both.dice_before, (8.0 / 10 + 4.0 / 5) / 2, 1e-12);
  EXPECT_EQ(both.dice_after, 1);
}

}  // namespace
}  // namespace tandem

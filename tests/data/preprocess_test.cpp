// Label maps and normalisation: their vectors, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/label_map.h"
#include "data/normalize.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

const std::vector<LabelClass> kMerged{{"background", {0}}, {"hip", {77, 78}}, {"odd", {-5, 100000}}};

std::vector<std::uint8_t> mapped(const LabelMap& map, const std::vector<std::int32_t>& values,
                                 UnknownLabels& unknown) {
  std::vector<std::uint8_t> classes(values.size(), 99);
  map.apply(values, classes, unknown);
  return classes;
}

TEST(LabelMap, MergesAnyValues) {
  UnknownLabels unknown;
  EXPECT_THAT(mapped(LabelMap(kMerged), {77, 0, 78, -5, 100000, 77}, unknown), ElementsAre(1, 0, 1, 2, 2, 1));
  EXPECT_TRUE(unknown.empty());
  LabelMap::expect_none(unknown, "a.h5");
}

TEST(LabelMap, UnknownValuesAreNamedWithCountsAndFile) {
  UnknownLabels unknown;
  mapped(LabelMap(kMerged), {7, 255, 7, 0, 77, 300}, unknown);
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { LabelMap::expect_none(unknown, "a.h5"); }),
              HasSubstr("a.h5: /label: got values 7 (2 voxels), 255 (1 voxel), 300 (1 voxel), expected "
                        "only those of data.labels"));
  UnknownLabels none;
  EXPECT_THAT(mapped(LabelMap(kMerged, OtherLabels::kBackground), {7, 255, 77}, none), ElementsAre(0, 0, 1));
  EXPECT_TRUE(none.empty());
}

TEST(LabelMap, OutputsTheValuesThatWentIn) {
  EXPECT_THAT(
      LabelMap(std::vector<LabelClass>{{"background", {0}}, {"a", {100}}, {"b", {-3}}}).output_values(),
      ElementsAre(0, 100, -3));
  EXPECT_THAT(LabelMap(kMerged).output_values(), ElementsAre(0, 1, 2));  // merged: the class index
}

std::vector<float> normalized(NormalizeOptions options, const std::vector<float>& values,
                              std::int64_t slices = 1) {
  ChannelStatistics statistics(options);
  const std::size_t n = values.size() / static_cast<std::size_t>(slices);
  for (std::int64_t z = 0; z < slices; ++z)
    statistics.add_slice(std::span(values).subspan(static_cast<std::size_t>(z) * n, n), z, 2, "a.h5");
  std::vector<float> result;
  for (const float value : values) result.push_back(statistics.scale()(value));
  return result;
}

void expect_values(const std::vector<float>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
}

TEST(Normalize, CtClipsThenScalesByFixedNumbers) {
  // medical.md 2.6: lo -40, hi 180, mean 60, sd 30.
  const NormalizeOptions ct{.kind = NormalizeKind::kCt, .clip = {{-40, 180}}, .mean = 60, .std = 30};
  expect_values(normalized(ct, {-1100, -50, 40, 60, 300}), {-10.0 / 3, -10.0 / 3, -2.0 / 3, 0, 4});
}

TEST(Normalize, ZscoreUsesTheClippedVolume) {
  // mean 5, population standard deviation 2.
  expect_values(normalized({}, {2, 4, 4, 4, 5, 5, 7, 9}, 4), {-1.5, -.5, -.5, -.5, 0, 0, 1, 2});
  const NormalizeOptions clipped{.clip = {{0, 2}}};
  expect_values(normalized(clipped, {-100, 0, 2, 1e6f}, 2), {-1, -1, 1, 1});
}

TEST(Normalize, ZscoreOfLargeOffsetsIsStable) {
  std::vector<float> values;
  for (int i = 0; i < 4096; ++i) values.push_back(1e6f + static_cast<float>(i % 2));
  const std::vector<float> result = normalized({}, values, 16);
  EXPECT_FLOAT_EQ(result[0], -1);
  EXPECT_FLOAT_EQ(result[1], 1);
}

TEST(Normalize, MinmaxAndNone) {
  expect_values(normalized({.kind = NormalizeKind::kMinmax}, {-2, 0, 6, 2}), {0, .25, 1, .5});
  expect_values(normalized({.kind = NormalizeKind::kNone}, {-2, 0, 6, 2}), {-2, 0, 6, 2});
  expect_values(normalized({.kind = NormalizeKind::kNone, .clip = {{-1, 3}}}, {-2, 0, 6, 2}), {-1, 0, 3, 2});
}

TEST(Normalize, ConstantImagesBecomeZeros) {
  for (const NormalizeKind kind : {NormalizeKind::kZscore, NormalizeKind::kMinmax})
    for (const float value : {0.0f, 0.1f, -1024.0f, 1e30f})
      EXPECT_THAT(normalized({.kind = kind}, std::vector<float>(6, value), 3), ::testing::Each(0.0f))
          << value;
  const NormalizeOptions all_clipped{.clip = {{0, 1}}};
  EXPECT_THAT(normalized(all_clipped, {5, 7, 9, 8}), ::testing::Each(0.0f));
  // 0.1 has no exact sum in double: the mean is off by a rounding, which a tiny deviation would blow up.
  const NormalizeOptions inexact{.clip = {{0.1, 0.7}}};
  EXPECT_THAT(normalized(inexact, std::vector<float>(21, -5.0f), 3), ::testing::Each(0.0f));
}

TEST(Normalize, NotFiniteVoxelsAreNamed) {
  std::vector<float> values(8, 1.0f);
  values[7] = std::nanf("");
  for (const NormalizeKind kind :
       {NormalizeKind::kZscore, NormalizeKind::kCt, NormalizeKind::kMinmax, NormalizeKind::kNone})
    EXPECT_THAT(error_of(ErrorKind::kData, [&] { normalized({.channel = 3, .kind = kind}, values, 2); }),
                HasSubstr("a.h5: channel 3, voxel [1, 1, 1] (z, y, x): got nan, expected a finite number"));
  values[7] = -INFINITY;
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { normalized({}, values, 2); }), HasSubstr("got -inf"));
}

TEST(Normalize, OptionsOfAChannel) {
  const std::vector<NormalizeOptions> list{{.channel = 1, .kind = NormalizeKind::kMinmax}};
  EXPECT_EQ(normalize_options_of(list, 1).kind, NormalizeKind::kMinmax);
  EXPECT_EQ(normalize_options_of(list, 0).kind, NormalizeKind::kZscore);
  EXPECT_EQ(normalize_options_of(list, 4).channel, 4);
}

}  // namespace
}  // namespace tandem

// Augmentations one by one against their formulas, SciPy and closed forms.
#include "data/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/intensity.h"
#include "data/patch_dataset.h"
#include "data/spatial.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"
#include "tests/refs/ref_file.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

std::pair<double, double> moments(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const float value : values)
    sum += static_cast<double>(value), squares += static_cast<double>(value) * value;
  const auto n = static_cast<double>(values.size());
  return {sum / n, std::sqrt(squares / n - sum / n * (sum / n))};
}

TEST(Intensity, BlurAsScipy) {
  const tests::RefFile refs("data.ref");
  for (const auto& [sigma, name] : {std::pair{0.7, "blur/0.7"}, {1.0, "blur/1.0"}}) {
    std::vector<float> values = floats(refs.values("image"));
    blur_values(values, {7, 9, 8}, sigma);
    const std::vector<double>& expected = refs.values(name);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], expected[i], 1e-6) << name << " " << i;
  }
}

TEST(Intensity, ContrastKeepsTheRange) {
  std::vector<float> values{0, 1, 2, 3, 14};  // mean 4
  change_contrast(values, 0.5);
  EXPECT_THAT(values, ElementsAre(2, 2.5f, 3, 3.5f, 9));
  values = {0, 1, 2, 3, 14};
  change_contrast(values, 2);
  EXPECT_THAT(values, ElementsAre(0, 0, 0, 2, 14));  // -4, -2, 0, 2, 24
}

TEST(Intensity, GammaKeepsMeanAndDeviation) {
  const tests::RefFile refs("data.ref");
  const std::vector<float> image = floats(refs.values("image"));
  for (const bool inverted : {false, true}) {
    std::vector<float> values = image;
    change_gamma(values, 1.4, inverted);
    const auto [mean, deviation] = moments(image);
    const auto [new_mean, new_deviation] = moments(values);
    EXPECT_NEAR(new_mean, mean, 1e-5);
    EXPECT_NEAR(new_deviation, deviation, 1e-5);
    // The curve itself, up to the line that restores the moments: from three values the rest follows.
    const auto [low, high] = std::minmax_element(image.begin(), image.end());
    const auto curve = [&, low = *low, high = *high](float v) {
      const double part =
          static_cast<double>(inverted ? high - v : v - low) / static_cast<double>(high - low);
      return (inverted ? -1 : 1) * std::pow(part, 1.4);
    };
    const double slope = (values[1] - values[0]) / (curve(image[1]) - curve(image[0]));
    for (std::size_t i = 2; i < 40; ++i)
      EXPECT_NEAR(values[i], values[0] + slope * (curve(image[i]) - curve(image[0])), 2e-4) << i;
  }
  std::vector<float> constant(8, 3.0f);
  change_gamma(constant, 0.7, false);
  EXPECT_THAT(constant, ::testing::Each(3.0f));
}

TEST(Intensity, LowResolutionIsNearestDownAndLinearUp) {
  std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7};
  lower_resolution(values, {1, 1, 8}, {0.5, 0.5, 0.5});
  // Four voxels 1, 3, 5, 7 (floor((i + .5) * 2)), read at (i + .5) / 2 - .5.
  EXPECT_THAT(values, ElementsAre(1, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f, 7));
  std::vector<float> whole{5, 1, 4, 2, 3, 9, 8, 7};
  lower_resolution(whole, {2, 2, 2}, {1, 1, 1});
  EXPECT_THAT(whole, ElementsAre(5, 1, 4, 2, 3, 9, 8, 7));
}

// A cube of 9^3 voxels whose value says where it is, read through a map.
struct Cube {
  Index3 size{9, 9, 9};
  std::vector<float> image, weight;
  std::vector<std::int32_t> label;
  static Cube of(const SpatialBox& box) {
    Cube cube{box.size, {}, {}, {}};
    for (std::int64_t z = 0; z < box.size[0]; ++z)
      for (std::int64_t y = 0; y < box.size[1]; ++y)
        for (std::int64_t x = 0; x < box.size[2]; ++x) {
          const std::int64_t at[] = {z + box.begin[0], y + box.begin[1], x + box.begin[2]};
          cube.image.insert(cube.image.end(), {static_cast<float>(100 * at[0] + 10 * at[1] + at[2]), 1.0f});
          cube.weight.push_back(static_cast<float>(at[2]));
          cube.label.push_back(at[0] >= 4 ? 2 : at[1] >= 4 ? 1 : 0);
        }
    return cube;
  }
  PatchView view() { return {size, 2, image, label, weight}; }
};

Cube read_through(const SpatialMap& map) {
  const SpatialBox box = spatial_box(map);
  Cube source = Cube::of(box),
       patch{map.size, std::vector<float>(2 * 729), std::vector<float>(729), std::vector<std::int32_t>(729)};
  resample_patch(map, box, source.view(), patch.view());
  return patch;
}

TEST(Spatial, AQuarterTurnAndAScaleReadWhereTheFormulaSays) {
  const Cube same = read_through({.size = {9, 9, 9}});
  EXPECT_EQ(same.image, Cube::of({{0, 0, 0}, {9, 9, 9}}).image);
  EXPECT_EQ(same.label, Cube::of({{0, 0, 0}, {9, 9, 9}}).label);
  // Rows z, y, x: reads (z, x, 8 - y).
  const Cube turned = read_through({.size = {9, 9, 9}, .matrix = {1, 0, 0, 0, 0, 1, 0, -1, 0}});
  const Cube wide = read_through({.size = {9, 9, 9}, .matrix = {1.25, 0, 0, 0, 1.25, 0, 0, 0, 1.25}});
  for (int z = 0; z < 9; ++z)
    for (int y = 0; y < 9; ++y)
      for (int x = 0; x < 9; ++x) {
        const auto at = static_cast<std::size_t>((z * 9 + y) * 9 + x);
        ASSERT_NEAR(turned.image[2 * at], 100 * z + 10 * x + 8 - y, 1e-3);
        ASSERT_EQ(turned.label[at], z >= 4 ? 2 : x >= 4 ? 1 : 0);
        ASSERT_NEAR(turned.weight[at], 8 - y, 1e-5);
        ASSERT_EQ(turned.image[2 * at + 1], 1.0f);
        const auto wide_of = [](int i) {
          return 4 + 1.25 * (i - 4);
        };  // linear interpolation is exact for a plane
        ASSERT_NEAR(wide.image[2 * at], 100 * wide_of(z) + 10 * wide_of(y) + wide_of(x), 2e-3);
      }
}

TEST(Spatial, DrawsStayInRangeAndFollowTheirProbability) {
  AugmentOptions options;
  options.rotate_deg = 30;
  options.scale = {{0.7, 1.4}};
  int any = 0, scaled = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const auto map = draw_spatial(options, {8, 8, 8}, {.seed = 3, .sample = i});
    if (!map) continue;
    ++any;
    const auto& m = map->matrix;
    const double det = m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) +
                       m[2] * (m[3] * m[7] - m[4] * m[6]);
    const double factor = std::cbrt(det);
    ASSERT_GT(factor, 0.7 - 1e-9);
    ASSERT_LT(factor, 1.4 + 1e-9);
    scaled += std::abs(factor - 1) > 1e-9;
    ASSERT_GT(m[0] / factor,
              std::cos(0.5236) * std::cos(0.5236) - 1e-3);  // no axis turned further than allowed
  }
  EXPECT_NEAR(any, 2000 * (1 - 0.8 * 0.8), 90);
  EXPECT_NEAR(scaled, 400, 75);
  options.probability.rotate = options.probability.scale = 1;
  const auto flat = draw_spatial(options, {4, 16, 16}, {.seed = 3});
  EXPECT_THAT(std::vector<double>(flat->matrix.begin(), flat->matrix.begin() + 3), ElementsAre(1, 0, 0));
  EXPECT_EQ(flat->matrix[3], 0);
}

TEST(Spatial, ElasticShiftsBendButDoNotTear) {
  AugmentOptions options;
  options.elastic = {{0.5, 4}};
  options.probability.elastic = 1;
  const auto map = draw_spatial(options, {9, 9, 9}, {.seed = 5});
  ASSERT_TRUE(map);
  EXPECT_EQ(map->grid, (Index3{4, 4, 4}));
  const Cube bent = read_through(*map), straight = Cube::of({{0, 0, 0}, {9, 9, 9}});
  double squares = 0;
  for (std::size_t i = 0; i < 729; ++i) squares += std::pow(bent.image[2 * i] - straight.image[2 * i], 2);
  // Shifts of 0.5 voxels, averaged by the interpolation, move a ramp of 100 per voxel by about 50.
  EXPECT_GT(std::sqrt(squares / 729), 10);
  EXPECT_LT(std::sqrt(squares / 729), 60);
}

AugmentOptions everything() {
  AugmentOptions options;
  options.mirror = {"z", "y", "x"};
  options.rotate_deg = 30;
  options.scale = {{0.7, 1.4}};
  options.elastic = {{1, 4}};
  options.noise_std = {{0, 0.1}};
  options.blur_sigma = {{0.5, 1}};
  options.brightness = options.contrast = {{0.75, 1.25}};
  options.gamma = {{0.7, 1.5}};
  options.low_resolution = {{0.5, 1}};
  AugmentProbability& p = options.probability;
  p = {.rotate = .5,
       .scale = .5,
       .elastic = .5,
       .noise = .5,
       .blur = .5,
       .brightness = .5,
       .contrast = .5,
       .low_resolution = .5,
       .gamma_inverted = .5,
       .gamma = .5,
       .mirror = .5};
  return options;
}

TEST(Augment, SamplesAreAFunctionOfTheDrawAlone) {
  const testing::TempFolder folder;
  testing::write_counting_case(
      folder / "a.h5", {12, 13, 14}, [](const Index3& at) { return at[0] > 5 ? 2 : 0; }, 2);
  DataOptions data = testing::plain_options({(folder / "a.h5").string()}, 2);
  data.normalize.clear();
  const PatchDataset one(data, {.size = {6, 7, 8}}, everything()),
      two(data, {.size = {6, 7, 8}}, everything());
  std::set<std::vector<double>> seen;
  for (std::uint64_t s = 0; s < 30; ++s) {
    const Draw draw{.seed = 9, .epoch = s};
    const Sample a = one.get(0, draw), b = two.get(0, draw);
    ASSERT_EQ(a.image.to_values(), b.image.to_values());
    ASSERT_EQ(a.label.to_values(), b.label.to_values());
    for (const double value : a.image.to_values()) ASSERT_TRUE(std::isfinite(value));
    for (const double value : a.label.to_values()) ASSERT_TRUE(value == 0 || value == 2);
    seen.insert(a.image.to_values());
  }
  EXPECT_EQ(seen.size(), 30u);
}

// Switching one change off leaves the draws of the others as they were.
TEST(Augment, EachChangeHasItsOwnStream) {
  std::vector<float> with(64, 1.0f), without(64, 1.0f);
  for (std::size_t i = 0; i < 64; ++i) with[i] = without[i] = static_cast<float>(i);
  std::vector<std::int32_t> label(64), label2(64);
  AugmentOptions options;
  options.noise_std = {{0.25, 0.25}};
  augment_patch({{4, 4, 4}, 1, without, label}, options, {.seed = 2});
  options.low_resolution = {{0.5, 1}};
  options.probability.low_resolution = 0;
  options.contrast = {{0.5, 2}};
  options.probability.contrast = 0;
  augment_patch({{4, 4, 4}, 1, with, label2}, options, {.seed = 2});
  EXPECT_EQ(with, without);
}

}  // namespace
}  // namespace tandem

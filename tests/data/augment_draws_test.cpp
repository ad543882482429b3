// How often each change of intensities comes, to how many channels, in which order, and what a rotated patch
// reads beyond the border.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/rng.h"
#include "data/augment.h"
#include "data/patch_dataset.h"
#include "data/spatial.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using testing::TempFolder;

// Two channels of different numbers.
struct Image {
  Index3 size{4, 6, 5};
  std::vector<float> values;
  std::vector<std::int32_t> label;
  explicit Image(const Index3& shape = {4, 6, 5}) : size(shape) {
    RandomStream stream(7, RandomPurpose::kSynthetic, 0, 0);
    for (std::int64_t i = 0; i < 2 * voxel_count(size); ++i)
      values.push_back(static_cast<float>(stream.uniform(-2, 3)));
    label.resize(values.size() / 2);
  }
  PatchView view() { return {size, 2, values, label}; }
  bool channel_equals(const Image& other, std::size_t channel) const {
    for (std::size_t i = channel; i < values.size(); i += 2)
      if (values[i] != other.values[i]) return false;
    return true;
  }
};

struct ChangeRow {
  const char* name;
  double AugmentProbability::*probability;
  double value;        // nnU-Net's (medical.md 2.5)
  double per_channel;  // share of channels once the change comes
  void (*switch_on)(AugmentOptions&);
};

// In the order in which they come.
const ChangeRow kChanges[] = {
    {"noise", &AugmentProbability::noise, .1, 1,
     [](AugmentOptions& o) {
       o.noise_std = {{0, .1}};
     }},
    {"blur", &AugmentProbability::blur, .2, .5,
     [](AugmentOptions& o) {
       o.blur_sigma = {{.5, 1}};
     }},
    {"brightness", &AugmentProbability::brightness, .15, 1,
     [](AugmentOptions& o) {
       o.brightness = {{.75, 1.25}};
     }},
    {"contrast", &AugmentProbability::contrast, .15, 1,
     [](AugmentOptions& o) {
       o.contrast = {{.75, 1.25}};
     }},
    {"low_resolution", &AugmentProbability::low_resolution, .25, .5,
     [](AugmentOptions& o) {
       o.low_resolution = {{.5, .7}};
     }},
    {"gamma_inverted", &AugmentProbability::gamma_inverted, .1, 1,
     [](AugmentOptions& o) {
       o.gamma = {{.7, 1.5}};
     }},
    {"gamma", &AugmentProbability::gamma, .3, 1,
     [](AugmentOptions& o) {
       o.gamma = {{.7, 1.5}};
     }},
};

// Only this change, with `probability`; the other probabilities are 1 but for the other gamma's.
AugmentOptions only(const ChangeRow& row, double probability) {
  AugmentOptions options;
  AugmentProbability& p = options.probability;
  p = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  if (row.probability == &AugmentProbability::gamma) p.gamma_inverted = 0;
  if (row.probability == &AugmentProbability::gamma_inverted) p.gamma = 0;
  row.switch_on(options);
  p.*row.probability = probability;
  return options;
}

// Four standard deviations of the share of `draws` that come with probability p.
double bound(double p, int draws) { return 4 * std::sqrt(p * (1 - p) / draws); }

TEST(AugmentDraws, EachChangeComesWithItsShareToItsShareOfChannels) {
  constexpr int kDraws = 2000;
  const Image before;
  for (const ChangeRow& row : kChanges) {
    const AugmentOptions options = only(row, row.value);
    int any = 0, both = 0;
    std::array<int, 2> changed{};
    for (std::uint64_t i = 0; i < kDraws; ++i) {
      Image image;
      augment_patch(image.view(), options, {.seed = 11, .sample = i});
      const bool first = !image.channel_equals(before, 0), second = !image.channel_equals(before, 1);
      changed[0] += first, changed[1] += second;
      any += first || second, both += first && second;
    }
    const double c = row.per_channel;
    const auto expect_share = [&](int count, double share, const char* what) {
      EXPECT_NEAR(static_cast<double>(count) / kDraws, share, bound(share, kDraws))
          << row.name << " " << what;
    };
    expect_share(any, row.value * (1 - (1 - c) * (1 - c)), "any channel");
    expect_share(both, row.value * c * c, "both channels");
    expect_share(changed[0], row.value * c, "channel 0");
    expect_share(changed[1], row.value * c, "channel 1");
  }
}

TEST(AugmentDraws, DefaultsAreNnunetsButForNoiseAndBrightness) {
  const AugmentProbability p;
  for (const ChangeRow& row : kChanges) {
    const std::string name = row.name;
    EXPECT_EQ(p.*row.probability, name == "noise" || name == "brightness" ? 1 : row.value) << name;
  }
  EXPECT_EQ(p.rotate, .2);
  EXPECT_EQ(p.scale, .2);
  EXPECT_EQ(p.mirror, .5);
}

Image changed_by(const std::vector<AugmentOptions>& steps, const Draw& draw) {
  Image image;
  for (const AugmentOptions& options : steps) augment_patch(image.view(), options, draw);
  return image;
}

// All at once is one after the other: each change draws from its own stream. Two neighbours the other way
// round give other bits, so the order is seen.
TEST(AugmentDraws, ChangesComeInTheirOrder) {
  AugmentOptions all;
  std::vector<AugmentOptions> steps;
  for (const ChangeRow& row : kChanges) {
    row.switch_on(all);
    steps.push_back(only(row, 1));
  }
  all.mirror = {"y"};
  all.probability = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  steps.emplace_back().mirror = {"y"};
  steps.back().probability.mirror = 1;
  std::vector<int> seen(steps.size() - 2);  // mirroring commutes with gamma
  int mirror_seen = 0;
  for (std::uint64_t i = 0; i < 12; ++i) {
    const Draw draw{.seed = 5, .sample = i};
    const Image together = changed_by({all}, draw);
    ASSERT_EQ(together.values, changed_by(steps, draw).values) << i;
    for (std::size_t k = 0; k < seen.size(); ++k) {
      std::vector<AugmentOptions> swapped = steps;
      std::swap(swapped[k], swapped[k + 1]);
      seen[k] += changed_by(swapped, draw).values != together.values;
    }
    std::vector<AugmentOptions> mirrored = steps;
    std::rotate(mirrored.begin(), mirrored.end() - 1, mirrored.end());
    mirror_seen += changed_by(mirrored, draw).values != together.values;
  }
  EXPECT_THAT(seen, ::testing::Each(::testing::Gt(0)));
  EXPECT_GT(mirror_seen, 0);
}

// A range: the deviation is uniform in it. One number: always that.
TEST(AugmentDraws, TheDeviationOfNoiseIsDrawnFromItsRange) {
  std::vector<double> deviations;
  for (std::uint64_t i = 0; i < 400; ++i) {
    std::vector<float> image(512, 0.0f);
    std::vector<std::int32_t> label(512);
    AugmentOptions options;
    options.noise_std = {{0, .1}};
    augment_patch({{8, 8, 8}, 1, image, label}, options, {.seed = 3, .sample = i});
    const double squares = std::inner_product(image.begin(), image.end(), image.begin(), 0.0);
    deviations.push_back(std::sqrt(squares / 512));
  }
  const double mean = std::accumulate(deviations.begin(), deviations.end(), 0.0) / 400;
  EXPECT_NEAR(mean, .05, 4 * .1 / std::sqrt(12.0 * 400));
  EXPECT_LT(*std::min_element(deviations.begin(), deviations.end()), .005);
  EXPECT_GT(*std::max_element(deviations.begin(), deviations.end()), .095);
  EXPECT_LT(*std::max_element(deviations.begin(), deviations.end()), .115);
}

// Slices of a flat patch that are each one number stay so, and equal to what they were.
TEST(AugmentDraws, LowResolutionLeavesSlicesOfFlatPatchesApart) {
  AugmentOptions options;
  options.low_resolution = {{.5, .6}};
  options.probability.low_resolution = 1;
  const auto slices_stay = [&](const Index3& size) {
    bool same = true;
    for (std::uint64_t i = 0; i < 8; ++i) {
      Image image(size);
      const auto slice = static_cast<std::size_t>(2 * size[1] * size[2]);
      for (std::size_t v = 0; v < image.values.size(); ++v)
        image.values[v] = static_cast<float>((v / slice) * (v / slice));
      const std::vector<float> before = image.values;
      augment_patch(image.view(), options, {.seed = 2, .sample = i});
      same = same && image.values == before;
    }
    return same;
  };
  EXPECT_TRUE(slices_stay({4, 13, 5}));
  EXPECT_FALSE(slices_stay({4, 12, 5}));  // 3 times, not more
}

// Value and classes of the case at a voxel; beyond its border 0 and background.
constexpr std::int64_t kEdge = 6;
bool is_inside(const Index3& at) {
  return std::all_of(at.begin(), at.end(), [](std::int64_t i) { return i >= 0 && i < kEdge; });
}

TEST(AugmentDraws, ARotatedPatchReadsZeroAndBackgroundBeyondTheBorder) {
  const TempFolder folder;
  testing::write_counting_case(folder / "a.h5", {kEdge, kEdge, kEdge}, [](const Index3&) { return 1; });
  const DataOptions data = testing::plain_options({(folder / "a.h5").string()});
  AugmentOptions augment{.rotate_deg = 180, .scale = {{1.2, 1.5}}};
  augment.probability.rotate = augment.probability.scale = 1;
  const PatchDataset dataset(data, {.size = {kEdge, kEdge, kEdge}, .foreground = 0}, augment);
  int beyond = 0, within = 0;
  for (std::uint64_t s = 0; s < 8; ++s) {
    const Draw draw{.seed = 9, .epoch = s};
    const Sample sample = dataset.get(0, draw);
    const auto image = sample.image.to_values(), label = sample.label.to_values();
    const auto map = draw_spatial(augment, {kEdge, kEdge, kEdge}, draw);
    ASSERT_TRUE(map);
    const double centre = (kEdge - 1) / 2.0;
    for (std::int64_t v = 0; v < kEdge * kEdge * kEdge; ++v) {
      const double p[] = {static_cast<double>(v / 36) - centre, static_cast<double>(v / 6 % 6) - centre,
                          static_cast<double>(v % 6) - centre};
      double value = 0, ones = 0;
      for (int k = 0; k < 8; ++k) {
        Index3 corner;
        double weight = 1;
        for (std::size_t a = 0; a < 3; ++a) {
          const double at = static_cast<double>(sample.origin[a]) + centre + map->matrix[3 * a] * p[0] +
                            map->matrix[3 * a + 1] * p[1] + map->matrix[3 * a + 2] * p[2];
          const bool upper = (k >> a & 1) != 0;
          corner[a] = static_cast<std::int64_t>(std::floor(at)) + (upper ? 1 : 0);
          weight *= upper ? at - std::floor(at) : 1 - (at - std::floor(at));
        }
        if (!is_inside(corner)) continue;
        value += weight * static_cast<double>((corner[0] * kEdge + corner[1]) * kEdge + corner[2]);
        ones += weight;
      }
      const auto at = static_cast<std::size_t>(v);
      ASSERT_NEAR(image[at], value, 2e-3) << s << " " << v;
      if (std::abs(ones - .5) > 1e-4) {  // else rounding decides
        ASSERT_EQ(label[at], ones > .5 ? 1 : 0) << s << " " << v;
      }
      beyond += ones == 0, within += ones > .999;
    }
  }
  EXPECT_GT(beyond, 100);
  EXPECT_GT(within, 100);
}

}  // namespace
}  // namespace tandem

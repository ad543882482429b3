// Prepared cases, patch positions, augmentation: from memory and from the file, at the borders and beyond
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/augment.h"
#include "data/patch_dataset.h"
#include "data/patch_sampler.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::plain_options;
using testing::TempFolder;
using testing::write_counting_case;

std::vector<bool> forced_slots(std::int64_t batch, double foreground) {
  std::vector<bool> result;
  for (std::int64_t j = 0; j < batch; ++j) {
    RandomStream stream(1, RandomPurpose::kPatch, 0, static_cast<std::uint64_t>(j));
    result.push_back(is_forced_foreground(j, batch, foreground, stream));
  }
  return result;
}

TEST(PatchSampler, ForcedForegroundFollowsTheRoundedShare) {
  // medical.md 2.4: share .33.
  EXPECT_THAT(forced_slots(2, 0.33), ElementsAre(false, true));
  EXPECT_THAT(forced_slots(3, 0.33), ElementsAre(false, false, true));
  EXPECT_THAT(forced_slots(4, 0.33), ElementsAre(false, false, false, true));
  EXPECT_THAT(forced_slots(5, 0.33), ElementsAre(false, false, false, true, true));
  EXPECT_THAT(forced_slots(8, 0.33), ElementsAre(false, false, false, false, false, true, true, true));
  EXPECT_THAT(forced_slots(3, 0), ElementsAre(false, false, false));
  EXPECT_THAT(forced_slots(3, 1), ElementsAre(true, true, true));
}

// Rounding would force all of a batch of two at 0.75, and none of a batch of one at 0.25.
TEST(PatchSampler, SmallBatchesDrawTheShare) {
  for (const auto& [batch, share] : {std::pair{1, 0.25}, std::pair{2, 0.75}, std::pair{2, 0.25}}) {
    int forced = 0;
    for (std::uint64_t i = 0; i < 4000; ++i) {
      RandomStream stream(1, RandomPurpose::kPatch, 0, i);
      forced += is_forced_foreground(static_cast<std::int64_t>(i) % batch, batch, share, stream);
    }
    EXPECT_NEAR(forced, 4000 * share, 110) << batch << " " << share;  // four standard deviations
  }
}

TEST(PatchSampler, OriginsAreClampedAtBothEnds) {
  const Index3 shape{20, 20, 20}, size{8, 8, 8};
  EXPECT_EQ(clamped_origin({0, 0, 3}, size, shape), (Index3{0, 0, 0}));
  EXPECT_EQ(clamped_origin({4, 10, 5}, size, shape), (Index3{0, 6, 1}));
  EXPECT_EQ(clamped_origin({19, 16, 17}, size, shape), (Index3{12, 12, 12}));
  EXPECT_EQ(clamped_origin({2, 2, 2}, {7, 8, 20}, shape), (Index3{0, 0, 0}));
  EXPECT_EQ(clamped_origin({1, 1, 1}, size, {3, 4, 7}), (Index3{-2, -2, 0}));  // smaller: centred
}

PreparedCase prepare(const std::filesystem::path& path, bool in_memory,
                     const DataOptions& options = plain_options()) {
  return PreparedCase(open_case(case_of_file(path)), options, in_memory);
}

std::int32_t two_blobs(const Index3& at) {
  if (at == Index3{0, 0, 0} || at == Index3{6, 8, 9}) return 1;
  return at[0] == 3 && at[1] < 4 ? 2 : 0;
}

TEST(PreparedCase, BoxesFromMemoryAndFileAreTheSame) {
  const TempFolder folder;
  write_counting_case(folder / "a.h5", {7, 9, 10}, two_blobs, 2);
  DataOptions options = plain_options({}, 2);
  options.normalize[0] = {.channel = 0, .kind = NormalizeKind::kZscore, .clip = {{10, 500}}};
  const PreparedCase memory = prepare(folder / "a.h5", true, options),
                     file = prepare(folder / "a.h5", false, options);
  EXPECT_EQ(memory.scales()[0].shift, file.scales()[0].shift);
  EXPECT_EQ(memory.scales()[0].factor, file.scales()[0].factor);
  for (const auto& [begin, size] : {std::pair<Index3, Index3>{{0, 0, 0}, {7, 9, 10}},
                                    {{2, 3, 4}, {3, 3, 3}},
                                    {{-2, 5, 8}, {5, 6, 4}},
                                    {{-1, -1, -1}, {9, 11, 12}},
                                    {{7, 0, 0}, {2, 2, 2}},
                                    {{-5, -5, -5}, {3, 3, 3}}}) {
    const auto n = static_cast<std::size_t>(voxel_count(size));
    std::vector<float> a(2 * n, 7), b(2 * n, 8);
    std::vector<std::int32_t> la(n, 7), lb(n, 8);
    memory.read_box(begin, size, a, la);
    file.read_box(begin, size, b, lb);
    EXPECT_EQ(a, b) << to_string(begin);
    EXPECT_EQ(la, lb) << to_string(begin);
    for (std::size_t i = 0; i < n; ++i) {  // channel 1 says where it is
      const auto v = static_cast<std::int64_t>(i);
      const Index3 at{begin[0] + v / (size[1] * size[2]), begin[1] + v / size[2] % size[1],
                      begin[2] + v % size[2]};
      const bool inside = at[0] >= 0 && at[1] >= 0 && at[2] >= 0 && at[0] < 7 && at[1] < 9 && at[2] < 10;
      EXPECT_EQ(a[2 * i + 1], inside ? static_cast<float>(10000 + (at[0] * 9 + at[1]) * 10 + at[2]) : 0)
          << to_string(at);
      EXPECT_EQ(la[i], inside ? two_blobs(at) : 0);
    }
  }
}

TEST(PreparedCase, EveryVoxelOfAClassCanBeFound) {
  const TempFolder folder;
  write_counting_case(folder / "a.h5", {7, 9, 10}, two_blobs);
  for (const bool in_memory : {true, false}) {
    const PreparedCase source = prepare(folder / "a.h5", in_memory);
    EXPECT_THAT(source.foreground().present_foreground(), ElementsAre(1, 2));
    ASSERT_EQ(source.foreground().count(1), 2);
    EXPECT_EQ(source.voxel_of_class(1, 0), (Index3{0, 0, 0}));
    EXPECT_EQ(source.voxel_of_class(1, 1), (Index3{6, 8, 9}));
    ASSERT_EQ(source.foreground().count(2), 40);
    std::set<Index3> found;
    for (std::int64_t k = 0; k < 40; ++k) {
      const Index3 at = source.voxel_of_class(2, k);
      EXPECT_EQ(two_blobs(at), 2);
      found.insert(at);
    }
    EXPECT_EQ(found.size(), 40u);
  }
}

TEST(PreparedCase, BadVoxelsAndLabelsNameTheFile) {
  const TempFolder folder;
  write_counting_case(folder / "labels.h5", {40, 2, 2}, [](const Index3& at) { return at[0] == 39 ? 9 : 0; });
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { prepare(folder / "labels.h5", true); }),
              ::testing::AllOf(HasSubstr("labels.h5: /label: got values 9 (4 voxels)"),
                               HasSubstr("data.other_labels: background")));
  Volume image{testing::plain_grid({40, 2, 2}), 1, std::vector<float>(160, 1)};
  image.values[35 * 4 + 3] = NAN;
  write_case(folder / "nan.h5", "nan", image, nullptr);
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { prepare(folder / "nan.h5", false); }),
              HasSubstr("nan.h5: channel 0, voxel [35, 1, 1] (z, y, x): got nan"));
}

TEST(PatchSampler, ForcedPatchesHoldTheirClassAndStayInside) {
  const TempFolder folder;
  write_counting_case(folder / "a.h5", {7, 9, 10}, two_blobs);
  const PreparedCase source = prepare(folder / "a.h5", true);
  const PatchOptions options{.size = {3, 4, 5}, .foreground = 1, .class_first = true};
  std::map<std::int32_t, int> seen;
  std::set<Index3> origins;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    RandomStream stream(3, RandomPurpose::kPatch, 0, i);
    const Index3 origin = draw_origin(source, options, true, stream);
    for (std::size_t a = 0; a < 3; ++a) {
      ASSERT_GE(origin[a], 0);
      ASSERT_LE(origin[a] + options.size[a], source.shape()[a]);
    }
    origins.insert(origin);
    std::vector<float> image(60);
    std::vector<std::int32_t> label(60);
    source.read_box(origin, options.size, image, label);
    const bool has_one = std::count(label.begin(), label.end(), 1) > 0,
               has_two = std::count(label.begin(), label.end(), 2) > 0;
    ASSERT_TRUE(has_one || has_two);
    if (has_one) ++seen[1];
    if (!has_one) ++seen[2];
  }
  // Class 1 has 2 voxels against 40, but half of the draws: 1000 +- 4 * 22; a patch around class 2 can hold
  // class 1 too.
  EXPECT_GT(seen[1], 1000 - 90);
  EXPECT_GT(seen[2], 800);
  EXPECT_TRUE(origins.contains(Index3{0, 0, 0}));
  EXPECT_TRUE(origins.contains(Index3{4, 5, 5}));
  PatchOptions by_voxel = options;
  by_voxel.class_first = false;
  int ones = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    RandomStream stream(3, RandomPurpose::kPatch, 0, i);
    const Index3 origin = draw_origin(source, by_voxel, true, stream);
    ones += origin == Index3{4, 5, 5};  // only around the lone voxel (6, 8, 9)
  }
  EXPECT_NEAR(ones, 2000.0 / 42, 28);
}

TEST(PatchSampler, FreePatchesCoverAllPlaces) {
  const TempFolder folder;
  write_counting_case(folder / "none.h5", {4, 5, 6}, [](const Index3&) { return 0; });
  const PreparedCase source = prepare(folder / "none.h5", true);
  const PatchOptions options{.size = {3, 5, 4}, .foreground = 0};
  for (const bool forced : {false, true}) {  // no foreground: forced falls back
    std::map<Index3, int> origins;
    for (std::uint64_t i = 0; i < 600; ++i) {
      RandomStream stream(3, RandomPurpose::kPatch, 1, i);
      ++origins[draw_origin(source, options, forced, stream)];
    }
    EXPECT_EQ(origins.size(), 2u * 1u * 3u);
    for (const auto& [origin, count] : origins) EXPECT_NEAR(count, 100, 40) << to_string(origin);
  }
}

TEST(PatchDataset, TinyVolumesArePadded) {
  const TempFolder folder;
  write_counting_case(folder / "tiny.h5", {2, 3, 1}, [](const Index3&) { return 1; });
  const PatchDataset dataset(plain_options({(folder / "tiny.h5").string()}),
                             {.size = {4, 3, 4}, .foreground = 1}, {});
  const Sample sample = dataset.get(0, {.seed = 1});
  EXPECT_EQ(sample.id, "tiny");
  EXPECT_EQ(sample.origin, (Index3{-1, 0, -1}));
  EXPECT_EQ(sample.image.shape(), (Shape{1, 1, 4, 3, 4}));
  EXPECT_EQ(sample.label.shape(), (Shape{1, 1, 4, 3, 4}));
  const std::vector<float> image(sample.image.data<float>(), sample.image.data<float>() + 48);
  const std::vector<std::int32_t> label(sample.label.data<std::int32_t>(),
                                        sample.label.data<std::int32_t>() + 48);
  std::vector<float> expected(48, 0);
  for (int z = 0; z < 2; ++z)
    for (int y = 0; y < 3; ++y)
      expected[static_cast<std::size_t>(((z + 1) * 3 + y) * 4 + 1)] = static_cast<float>(z * 3 + y);
  EXPECT_EQ(image, expected);
  EXPECT_EQ(std::count(label.begin(), label.end(), 1), 6);
}

TEST(PatchDataset, RefusesWhatCannotBeTrainedOn) {
  const TempFolder folder;
  EXPECT_THAT(error_of(ErrorKind::kConfig, [&] { PatchDataset(plain_options(), {}, {}); }),
              HasSubstr("data.train: got no files"));
  EXPECT_THAT(
      error_of(ErrorKind::kData, [&] { PatchDataset(plain_options({(folder / "*.h5").string()}), {}, {}); }),
      HasSubstr("no such file"));
  EXPECT_THAT(
      error_of(ErrorKind::kData, [&] { PatchDataset(plain_options({folder.path().string()}), {}, {}); }),
      HasSubstr("folder without case files"));
  write_case(folder / "a.h5", "a", {testing::plain_grid({2, 2, 2}), 1, std::vector<float>(8)}, nullptr);
  EXPECT_THAT(
      error_of(ErrorKind::kData, [&] { PatchDataset(plain_options({folder.path().string()}), {}, {}); }),
      HasSubstr("got a case without labels"));
  write_counting_case(folder / "a.h5", {2, 2, 2}, two_blobs, 1);
  write_counting_case(folder / "b.h5", {2, 2, 2}, two_blobs, 2);
  EXPECT_THAT(
      error_of(ErrorKind::kData, [&] { PatchDataset(plain_options({(folder / "*.h5").string()}), {}, {}); }),
      HasSubstr("b.h5: got 2 channels, expected 1 as"));
}

TEST(PatchDataset, NormalisationOfAMissingChannelIsAMistakeOfTheJob) {
  const TempFolder folder;
  write_counting_case(folder / "a.h5", {2, 2, 2}, two_blobs);
  EXPECT_THAT(error_of(ErrorKind::kConfig,
                       [&] { PatchDataset(plain_options({(folder / "a.h5").string()}, 2), {}, {}); }),
              HasSubstr("data.normalize channel: got 1, expected 0 to 0 as"));
}

TEST(PatchDataset, CacheAndFileGiveTheSameSamples) {
  const TempFolder folder;
  write_counting_case(folder / "a.h5", {12, 9, 10}, two_blobs, 2);
  DataOptions options = plain_options({folder.path().string()}, 2);
  const PatchOptions patch{.size = {4, 5, 4}, .foreground = 0.5};
  const AugmentOptions augment{
      .mirror = {"x", "y", "z"}, .noise_std = {{0.1, 0.1}}, .brightness = {{0.9, 1.1}}};
  const PatchDataset cached(options, patch, augment);
  options.cache = CacheKind::kNone;
  const PatchDataset uncached(options, patch, augment);
  options.cache = CacheKind::kRam;
  options.cache_bytes = 100;
  const PatchDataset too_large(options, patch, augment);
  for (std::uint64_t s = 0; s < 20; ++s) {
    const Draw draw{
        .seed = 4, .epoch = s, .sample = 0, .slot = static_cast<std::int64_t>(s % 2), .batch_size = 2};
    const std::vector<double> expected = cached.get(0, draw).image.to_values();
    EXPECT_EQ(uncached.get(0, draw).image.to_values(), expected);
    EXPECT_EQ(too_large.get(0, draw).image.to_values(), expected);
    EXPECT_EQ(uncached.get(0, draw).label.to_values(), cached.get(0, draw).label.to_values());
  }
}

struct Patch {
  Index3 size{2, 3, 4};
  std::int64_t channels = 2;
  std::vector<float> image;
  std::vector<std::int32_t> label;
  Patch() {
    for (int i = 0; i < 24; ++i) {
      label.push_back(i);
      image.push_back(static_cast<float>(i));
      image.push_back(static_cast<float>(100 + i));
    }
  }
  PatchView view() { return {size, channels, image, label}; }
};

TEST(Augment, MirrorReversesOneAxisOfImageAndLabel) {
  for (const int axis : {0, 1, 2}) {
    Patch patch;
    mirror_patch(patch.view(), axis);
    for (int z = 0; z < 2; ++z)
      for (int y = 0; y < 3; ++y)
        for (int x = 0; x < 4; ++x) {
          const int from =
              ((axis == 0 ? 1 - z : z) * 3 + (axis == 1 ? 2 - y : y)) * 4 + (axis == 2 ? 3 - x : x);
          const auto at = static_cast<std::size_t>((z * 3 + y) * 4 + x);
          EXPECT_EQ(patch.label[at], from);
          EXPECT_EQ(patch.image[2 * at], static_cast<float>(from));
          EXPECT_EQ(patch.image[2 * at + 1], static_cast<float>(100 + from));
        }
  }
}

TEST(Augment, OnlyAllowedAxesAreMirroredAndHalfTheTime) {
  AugmentOptions options;
  options.mirror = {"y"};
  int mirrored = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    Patch patch;
    augment_patch(patch.view(), options, {.seed = 1, .sample = i});
    Patch turned;
    mirror_patch(turned.view(), 1);
    mirrored += patch.label == turned.label;
    EXPECT_TRUE(patch.label == turned.label || patch.label == Patch().label);
  }
  EXPECT_NEAR(mirrored, 500, 64);
}

TEST(Augment, NoiseHasItsStandardDeviationAndLeavesLabels) {
  AugmentOptions options;
  options.noise_std = {{0.25, 0.25}};
  std::vector<float> image(64 * 64 * 64, 3.0f);
  std::vector<std::int32_t> label(image.size(), 1);
  augment_patch({{64, 64, 64}, 1, image, label}, options, {.seed = 5});
  double sum = 0, squares = 0;
  for (const float value : image) {
    const double d = static_cast<double>(value) - 3.0;
    sum += d;
    squares += d * d;
  }
  const auto n = static_cast<double>(image.size());
  EXPECT_NEAR(sum / n, 0, 4 * 0.25 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.25, 0.002);
  EXPECT_THAT(label, ::testing::Each(1));
}

TEST(Augment, BrightnessScalesEachChannelWithinItsRangeHalfBelowOne) {
  AugmentOptions options;
  options.brightness = {{0.5, 1.1}};
  int below = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    Patch patch;
    augment_patch(patch.view(), options, {.seed = 6, .sample = i});
    const double first = patch.image[2 * 5] / 5.0, second = patch.image[2 * 5 + 1] / 105.0;
    EXPECT_GE(first, 0.5 - 1e-6);
    EXPECT_LE(first, 1.1 + 1e-6);
    EXPECT_NE(first, second);
    EXPECT_NEAR(patch.image[2 * 23] / 23.0, first, 1e-6);
    below += first < 1;
  }
  EXPECT_NEAR(below, 500, 64);
}

TEST(Augment, ChangesAreIndependentOfEachOther) {
  AugmentOptions noise;
  noise.noise_std = {{1, 1}};
  AugmentOptions both = noise;
  both.mirror = {"x"};
  both.probability.mirror = 0;
  Patch a, b;
  augment_patch(a.view(), noise, {.seed = 7});
  augment_patch(b.view(), both, {.seed = 7});
  EXPECT_EQ(a.image, b.image);
}

}  // namespace
}  // namespace tandem

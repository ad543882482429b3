// /weight of case files: read with the patch, moved with the label, 1 wherever nobody gave one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "data/check.h"
#include "data/hdf5_file.h"
#include "data/loader.h"
#include "data/patch_dataset.h"
#include "data/spatial.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr std::int64_t kShape[] = {4, 5, 6};
constexpr std::size_t kVoxels = 120;

// label of voxel v: v % 3; weight: 10 v + label, so that each says where it came from; or none. That of voxel
// [2, 3, 4] may be `bad`.
void write_weighted(const std::filesystem::path& path, bool weighted, std::optional<float> bad = {}) {
  Hdf5File file = Hdf5File::create_image();
  std::vector<float> raw, weight;
  std::vector<std::uint8_t> label;
  for (std::size_t v = 0; v < kVoxels; ++v) {
    raw.push_back(static_cast<float>(v));
    label.push_back(static_cast<std::uint8_t>(v % 3));
    weight.push_back(static_cast<float>(10 * v + v % 3));
  }
  if (bad) weight[2 * 30 + 3 * 6 + 4] = *bad;
  file.write<float>("/raw", kShape, raw);
  file.write<std::uint8_t>("/label", kShape, label);
  if (weighted) file.write<float>("/weight", kShape, weight);
  const std::vector<std::byte> image = file.image();
  testing::write_bytes(path, {reinterpret_cast<const char*>(image.data()), image.size()});
}

TEST(VoxelWeight, ABatchHoldsOnesForACaseWithoutAndBeyondTheVolume) {
  const TempFolder folder;
  write_weighted(folder / "a.h5", true);
  write_weighted(folder / "b.h5", false);
  DataOptions data = testing::plain_options({folder.path().string()});
  for (const CacheKind cache : {CacheKind::kRam, CacheKind::kDisk, CacheKind::kNone}) {
    data.cache = cache;
    const auto dataset = std::make_shared<PatchDataset>(
        data, PatchOptions{.size = {4, 5, 8}, .foreground = 0}, AugmentOptions{});
    Loader loader(dataset, {.batch_size = 2, .shuffle = false});
    const Batch batch = loader.next();
    ASSERT_EQ(batch.weight.shape(), (Shape{2, 1, 4, 5, 8}));
    ASSERT_EQ(batch.weight.dtype(), DType::kF32);
    const std::vector<double> weight = batch.weight.to_values();
    for (std::size_t i = 0; i < 160;
         ++i) {  // the volume lies in the middle: one voxel of padding at each end of x
      const std::size_t x = i % 8, v = i / 8 * 6 + x - 1;
      ASSERT_EQ(weight[i], x == 0 || x == 7 ? 1 : static_cast<double>(10 * v + v % 3)) << i;
    }
    EXPECT_THAT(std::vector<double>(weight.begin() + 160, weight.end()), Each(1));
  }
  data.train = {(folder / "b.h5").string()};
  Loader unweighted(std::make_shared<PatchDataset>(data, PatchOptions{.size = {4, 5, 6}}, AugmentOptions{}),
                    {});
  EXPECT_FALSE(unweighted.next().weight.defined());
}

// Whatever is done to a patch, the weight of a voxel is one of the file's, and that of its label's voxel
// where the label is one voxel's too.
TEST(VoxelWeight, MovesWithTheLabel) {
  const TempFolder folder;
  write_weighted(folder / "a.h5", true);
  const DataOptions data = testing::plain_options({(folder / "a.h5").string()});
  AugmentOptions augment{.mirror = {"z", "y", "x"}};
  const PatchDataset mirrored(data, {.size = {4, 5, 6}}, augment);
  for (std::uint64_t s = 0; s < 16; ++s) {
    const Sample sample = mirrored.get(0, {.seed = 9, .epoch = s});
    const auto label = sample.label.to_values(), weight = sample.weight.to_values(),
               image = sample.image.to_values();
    for (std::size_t i = 0; i < kVoxels; ++i) ASSERT_EQ(weight[i], 10 * image[i] + label[i]);
  }
  augment = {.rotate_deg = 180, .scale = {{0.7, 1.4}}};
  augment.probability.rotate = augment.probability.scale = 1;
  const PatchDataset turned(data, {.size = {4, 5, 6}}, augment);
  for (std::uint64_t s = 0; s < 16; ++s) {
    const Sample sample = turned.get(0, {.seed = 9, .epoch = s});
    for (const double weight : sample.weight.to_values()) {
      const auto voxel = static_cast<std::int64_t>(weight) / 10;
      ASSERT_TRUE(weight == 1 || weight == static_cast<double>(10 * voxel + voxel % 3)) << weight;
    }
  }
}

TEST(VoxelWeight, WhatIsNoWeightIsNamedWithItsVoxel) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {-0.5f, infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    const TempFolder folder;
    write_weighted(folder / "a.h5", true, bad);
    const DataOptions data = testing::plain_options({folder.path().string()});
    EXPECT_THAT(testing::error_of(ErrorKind::kData,
                                  [&] {
                                    PatchDataset(data, {.size = {4, 5, 6}}, {});
                                  }),
                HasSubstr(fmt::format("a.h5: /weight: got {} at [2, 3, 4] (z, y, x)", bad)));
  }
}

TEST(VoxelWeight, IsThatOfTheNearestVoxel) {
  std::vector<float> image(3, 0), weight{5, 7, 11};
  std::vector<std::int32_t> label{0, 1, 2};
  std::vector<float> image_out(3), weight_out(3);
  std::vector<std::int32_t> label_out(3);
  // Reads x at 1 + 0.8 (x - 1): 0.2, 1, 1.8.
  const SpatialMap map{.size = {1, 1, 3}, .matrix = {1, 0, 0, 0, 1, 0, 0, 0, 0.8}};
  resample_patch(map, {{0, 0, 0}, {1, 1, 3}}, {{1, 1, 3}, 1, image, label, weight},
                 {{1, 1, 3}, 1, image_out, label_out, weight_out});
  EXPECT_THAT(weight_out, ElementsAre(5, 7, 11));
  EXPECT_THAT(label_out, ElementsAre(0, 1, 2));
}

TEST(VoxelWeight, DataCheckFindsABadOne) {
  const TempFolder folder;
  write_weighted(folder / "a.h5", true, -1.0f);
  const CheckReport report = check_data(testing::plain_options({(folder / "a.h5").string()}), {});
  std::string text;
  for (const Finding& finding : report.findings) text += finding.text + "\n";
  EXPECT_THAT(text, HasSubstr("/weight: got -1 at [2, 3, 4] (z, y, x)"));
}

}  // namespace
}  // namespace tandem

// Normalisation by the mask of voxels that are not 0, and the mask through resampling and augmentation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/nonzero_mask.h"
#include "data/patch_dataset.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TempFolder;

TEST(NonzeroMask, HolesAreFilledAndBaysAreNot) {
  // A ring around a zero is no hole in one slice: it is open along z.
  const std::vector<float> ring{0, 1, 1, 1, 0,  //
                                0, 1, 0, 1, 0,  //
                                0, 1, 1, 1, 0};
  EXPECT_THAT(nonzero_mask(ring, {1, 3, 5}), ElementsAre(0, 1, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1, 1, 1, 0));
  // A closed shell 3 x 3 x 3 in 5 x 5 x 5: its middle is a hole; with one voxel of the shell missing it is
  // not.
  const Index3 size{5, 5, 5};
  std::vector<float> shell(125, 0);
  for (std::size_t z = 1; z < 4; ++z)
    for (std::size_t y = 1; y < 4; ++y)
      for (std::size_t x = 1; x < 4; ++x) shell[(z * 5 + y) * 5 + x] = z == 2 && y == 2 && x == 2 ? 0 : 7;
  EXPECT_EQ(nonzero_mask(shell, size)[62], 1);
  EXPECT_EQ(std::ranges::count(nonzero_mask(shell, size), 1), 27);
  shell[63] = 0;  // beside the middle: a bay, reached against the sweep's direction
  EXPECT_EQ(std::ranges::count(nonzero_mask(shell, size), 1), 25);
  // Channels count together.
  const std::vector<float> channels{0, 1, 0, 0, 0, 2};
  EXPECT_THAT(nonzero_mask(channels, {1, 1, 3}), ElementsAre(0, 1, 1));
}

// Values 10, 20, 30, 40 in the middle of zeros: mean 25, standard deviation sqrt(125).
void write_small(const std::filesystem::path& path, float middle = 20) {
  Volume image{testing::plain_grid({1, 1, 8}), 1, {0, 0, 10, middle, 30, 40, 0, 0}};
  LabelVolume labels{testing::plain_grid({1, 1, 8}), {0, 0, 1, 1, 0, 0, 0, 0}};
  write_case(path, "small", image, &labels);
}

DataOptions masked_options(const TempFolder& folder, NormalizeKind kind = NormalizeKind::kZscore) {
  DataOptions data = testing::plain_options({(folder / "a.h5").string()});
  data.normalize = {{.channel = 0, .kind = kind, .masked = true}};
  data.cache_folder = (folder / "cache").string();
  return data;
}

std::vector<double> patch_of(const DataOptions& data, const AugmentOptions& augment = {}) {
  return PatchDataset(data, {.size = {1, 1, 8}, .foreground = 0}, augment)
      .get(0, {.seed = 2})
      .image.to_values();
}

TEST(MaskedNormalisation, StatisticsOfTheMaskAndZeroOutside) {
  const TempFolder folder;
  write_small(folder / "a.h5");
  DataOptions data = masked_options(folder);
  const double s = std::sqrt(125.0);
  const std::vector<double> expected{0, 0, -15 / s, -5 / s, 5 / s, 15 / s, 0, 0};
  for (const CacheKind cache : {CacheKind::kRam, CacheKind::kDisk, CacheKind::kNone}) {
    data.cache = cache;
    const std::vector<double> image = patch_of(data);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(image[i], expected[i], 1e-6) << i;
  }
  data.normalize[0].kind = NormalizeKind::kMinmax;
  const std::vector<double> minmax = patch_of(data);
  EXPECT_NEAR(minmax[2], 0, 1e-7);
  EXPECT_NEAR(minmax[5], 1, 1e-7);
  EXPECT_EQ(minmax[7], 0);
  data.normalize[0] = {.channel = 0};  // not masked: the zeros count
  EXPECT_LT(patch_of(data)[0], -0.5);
}

TEST(MaskedNormalisation, ALineThroughResamplingIsZeroOutsideAgain) {
  const TempFolder folder;
  write_small(folder / "a.h5");
  DataOptions data = masked_options(folder);
  data.spacing = {{1, 1, 0.5}};
  const PatchDataset dataset(data, {.size = {1, 1, 16}, .foreground = 0}, {});
  const std::vector<double> image = dataset.get(0, {}).image.to_values();
  for (const std::size_t i : {0u, 1u, 2u, 3u, 12u, 13u, 14u, 15u}) EXPECT_EQ(image[i], 0) << i;
  for (std::size_t i = 4; i < 12; ++i) EXPECT_NE(image[i], 0) << i;
}

TEST(MaskedNormalisation, ZeroStaysZeroThroughAugmentation) {
  const TempFolder folder;
  write_small(folder / "a.h5");
  const DataOptions data = masked_options(folder);
  const AugmentOptions augment{.noise_std = {{0.5, 0.5}}, .brightness = {{0.5, 0.9}}};
  const std::vector<double> plain = patch_of(data), changed = patch_of(data, augment);
  for (std::size_t i = 0; i < 8; ++i) {
    if (i < 2 || i > 5) {
      EXPECT_EQ(changed[i], 0) << i;
    } else {
      EXPECT_NE(changed[i], plain[i]) << i;
    }
  }
}

TEST(MaskedNormalisation, NamesAVoxelThatIsNotFiniteWhereverItIs) {
  const TempFolder folder;
  write_small(folder / "a.h5", NAN);
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { patch_of(masked_options(folder)); }),
              HasSubstr("channel 0, voxel [0, 0, 3] (z, y, x): got nan"));
}

}  // namespace
}  // namespace tandem

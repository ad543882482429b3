// Patches on a grid, their filter, and weights of classes: medical.md 2.4 (pytorch-3dunet's builders).
#include "data/patch_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/loader.h"
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

TEST(PatchGrid, StartsAreThoseOfPytorch3dunet) {
  EXPECT_THAT(grid_starts(100, 32, 24), ElementsAre(0, 24, 48, 68));
  EXPECT_THAT(grid_starts(100, 80, 80), ElementsAre(0, 20));
  EXPECT_THAT(grid_starts(80, 80, 20), ElementsAre(0));
  EXPECT_THAT(grid_starts(122, 64, 32), ElementsAre(0, 32, 58));
  EXPECT_THAT(grid_starts(128, 64, 64), ElementsAre(0, 64));
  EXPECT_THAT(grid_starts(5, 8, 8), ElementsAre(-1));  // as clamped_origin: in the middle
}

// One foreground voxel at (0, 0, 0), a row of 4 at (3, 2, 4..7).
std::int32_t few(const Index3& at) {
  if (at == Index3{0, 0, 0}) return 1;
  return at[0] == 3 && at[1] == 2 && at[2] >= 4 ? 2 : 0;
}

TEST(PatchGrid, TheFilterKeepsPatchesAboveTheFraction) {
  const TempFolder folder;
  write_counting_case(folder / "a.h5", {4, 4, 8}, few);
  DataOptions data = plain_options();
  for (const bool in_memory : {true, false}) {
    const PreparedCase source(open_case(case_of_file(folder / "a.h5")), data, in_memory);
    PatchOptions patch{.size = {2, 2, 4}, .sampling = PatchSampling::kGrid};
    EXPECT_EQ(grid_patches(source, patch, 0).size(), 8u);
    patch.stride = {{2, 1, 2}};
    EXPECT_EQ(grid_patches(source, patch, 0).size(), 2u * 3u * 3u);
    patch.stride.reset();
    patch.min_foreground = 0;
    EXPECT_THAT(grid_patches(source, patch, 0), ElementsAre(Index3{0, 0, 0}, Index3{2, 2, 4}));
    patch.min_foreground = 1.0 / 16;  // more than: the lone voxel is exactly 1/16
    EXPECT_THAT(grid_patches(source, patch, 0), ElementsAre(Index3{2, 2, 4}));
    patch.slack = 1;
    EXPECT_EQ(grid_patches(source, patch, 0).size(), 8u);
  }
}

TEST(PatchGrid, SlackKeepsItsShareAndAlwaysTheSame) {
  const TempFolder folder;
  write_counting_case(folder / "none.h5", {40, 10, 10}, [](const Index3&) { return 0; });
  const PreparedCase source(open_case(case_of_file(folder / "none.h5")), plain_options(), true);
  const PatchOptions patch{
      .size = {1, 1, 1}, .sampling = PatchSampling::kGrid, .min_foreground = 0, .slack = 0.25};
  const std::vector<Index3> first = grid_patches(source, patch, 0);
  EXPECT_NEAR(static_cast<double>(first.size()), 1000, 110);  // four standard deviations
  EXPECT_EQ(grid_patches(source, patch, 0), first);
  EXPECT_NE(grid_patches(source, patch, 1), first);
}

TEST(PatchGrid, AnEpochIsEveryPatchOnce) {
  const TempFolder folder;
  write_counting_case(folder / "a.h5", {4, 4, 8}, few);
  write_counting_case(folder / "b.h5", {4, 4, 4}, few);
  write_counting_case(folder / "c.h5", {4, 4, 4}, [](const Index3&) { return 0; });
  const DataOptions data = plain_options({folder.path().string()});
  const PatchOptions patch{.size = {4, 4, 4}, .sampling = PatchSampling::kGrid};
  const auto dataset = std::make_shared<PatchDataset>(data, patch, AugmentOptions{});
  EXPECT_EQ(dataset->size(), 4);
  Loader loader(dataset, {.batch_size = 1, .seed = 5});
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::set<std::pair<std::string, Index3>> seen;
    for (int i = 0; i < 4; ++i) {
      const Batch batch = loader.next();
      seen.insert({batch.ids[0], batch.origins[0]});
      const bool second = batch.ids[0] == "a" && batch.origins[0][2] == 4;
      EXPECT_EQ(batch.image.to_values()[0], second ? 4 : 0);
    }
    EXPECT_EQ(seen, (std::set<std::pair<std::string, Index3>>{
                        {"a", {0, 0, 0}}, {"a", {0, 0, 4}}, {"b", {0, 0, 0}}, {"c", {0, 0, 0}}}));
  }
  EXPECT_THAT(
      error_of(ErrorKind::kData,
               [&] {
                 PatchDataset(
                     data, {.size = {4, 4, 4}, .sampling = PatchSampling::kGrid, .min_foreground = 0.5}, {});
               }),
      HasSubstr("got 0 patches of 3 cases with more than 0.5 of foreground"));
}

TEST(PatchSampler, ClassWeightsDecideWhichClassIsChosen) {
  const TempFolder folder;
  write_counting_case(folder / "a.h5", {4, 4, 8}, few);
  const DataOptions data = plain_options();
  const PreparedCase source(open_case(case_of_file(folder / "a.h5")), data, true);
  PatchOptions patch{.size = {1, 1, 1}, .foreground = 1, .class_weights = {{"b", 3}}};
  const LabelMap labels(data);
  const auto chosen = [&] {
    std::map<bool, int> ones;
    const std::vector<double> weights = patch_class_weights(patch, labels);
    for (std::uint64_t i = 0; i < 4000; ++i) {
      RandomStream stream(3, RandomPurpose::kPatch, 0, i);
      ++ones[draw_origin(source, patch, true, stream, weights) == Index3{0, 0, 0}];
    }
    return ones[true];
  };
  EXPECT_NEAR(chosen(), 1000, 110);  // 1 : 3
  patch.class_weights = {{"a", 0}};
  EXPECT_EQ(chosen(), 0);
  patch.class_weights = {{"a", 0}, {"b", 0}};
  EXPECT_NEAR(chosen(), 4000.0 / 128, 23);  // no class left: anywhere
  patch.class_weights = {{"liver", 1}};
  EXPECT_THAT(error_of(ErrorKind::kConfig, [&] { patch_class_weights(patch, labels); }),
              HasSubstr("class_weights: got 'liver', expected foreground classes of data.labels: a, b"));
}

}  // namespace
}  // namespace tandem

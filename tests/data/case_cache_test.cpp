// The disk cache: the same samples as from memory, made once, found again, made anew when anything changes,
// safe against damage, leftovers and two at a time.
#include "data/case_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/nifti.h"
#include "data/patch_dataset.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr Index3 kShape{40, 35, 70};

std::int32_t label_of(const Index3& at) { return at[0] > 30 ? 2 : at[2] == 33 && at[1] < 4 ? 1 : 0; }

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

DataOptions options_for(const TempFolder& folder) {
  DataOptions data = testing::plain_options({(folder / "a.h5").string()}, 2);
  data.normalize.clear();  // z-scores
  data.cache_folder = (folder / "cache").string();
  return data;
}

TEST(CaseCache, SamplesAreThoseOfMemory) {
  const TempFolder folder;
  testing::write_counting_case(folder / "a.h5", kShape, label_of, 2);
  DataOptions data = options_for(folder);
  const AugmentOptions augment{.mirror = {"x"}, .noise_std = {{0.1, 0.1}}};
  for (const bool spaced : {false, true}) {
    if (spaced) data.spacing = {{1.3, 1, 0.9}};
    data.cache = CacheKind::kRam;
    const PatchDataset memory(data, {.size = {34, 20, 40}, .foreground = 0.5}, augment);
    data.cache = CacheKind::kDisk;
    const PatchDataset disk(data, {.size = {34, 20, 40}, .foreground = 0.5}, augment);
    for (std::uint64_t s = 0; s < 12; ++s) {
      const Draw draw{.seed = 4, .epoch = s, .slot = static_cast<std::int64_t>(s % 2), .batch_size = 2};
      const Sample a = memory.get(0, draw), b = disk.get(0, draw);
      ASSERT_EQ(a.origin, b.origin);
      ASSERT_EQ(a.image.to_values(), b.image.to_values());
      ASSERT_EQ(a.label.to_values(), b.label.to_values());
    }
  }
  EXPECT_EQ(files_in(folder / "cache").size(), 2u);  // one per preparation, no lock and nothing temporary
}

TEST(CaseCache, NiftiCasesAndCasesThatDoNotFit) {
  const TempFolder folder;
  Volume image{testing::plain_grid({8, 9, 10}), 1, std::vector<float>(720)};
  for (std::size_t i = 0; i < 720; ++i) image.values[i] = static_cast<float>(i);
  write_nifti(folder / "a.nii.gz", image);
  write_nifti(folder / "a_label.nii.gz", LabelVolume{image.geometry, std::vector<std::int32_t>(720, 1)});
  DataOptions data = testing::plain_options({(folder / "a.nii.gz").string()});
  data.format = "nifti";
  const PatchDataset memory(data, {.size = {8, 9, 10}}, {});
  data.cache_bytes = 100;
  const PatchDataset disk(data, {.size = {8, 9, 10}}, {});
  EXPECT_EQ(memory.get(0, {}).image.to_values(), disk.get(0, {}).image.to_values());
  EXPECT_EQ(files_in(folder / ".tandem-cache").size(), 1u);
}

TEST(CaseCache, TheKeyFollowsContentAndPreparationOnly) {
  const TempFolder folder;
  testing::write_counting_case(folder / "a.h5", {4, 4, 4}, label_of);
  std::filesystem::copy(folder / "a.h5", folder / "b.h5");
  DataOptions data = options_for(folder);
  const CacheKey key = cache_key(case_of_file(folder / "a.h5"), data);
  EXPECT_EQ(cache_key(case_of_file(folder / "b.h5"), data), key);
  DataOptions other = data;
  other.workers = 7, other.cache_bytes = 1, other.validation = {"x"};
  EXPECT_EQ(cache_key(case_of_file(folder / "a.h5"), other), key);
  other.crop_nonzero = true;
  EXPECT_NE(cache_key(case_of_file(folder / "a.h5"), other), key);
  other = data;
  other.labels[1].values = {2}, other.labels[2].values = {1};
  EXPECT_NE(cache_key(case_of_file(folder / "a.h5"), other), key);
  testing::write_counting_case(folder / "b.h5", {4, 4, 4}, [](const Index3&) { return 1; });
  EXPECT_NE(cache_key(case_of_file(folder / "b.h5"), data), key);
}

TEST(CaseCache, DamageAndLeftovers) {
  const TempFolder folder;
  testing::write_counting_case(folder / "a.h5", kShape, label_of, 2);
  const DataOptions data = options_for(folder);
  const CaseEntry entry = case_of_file(folder / "a.h5");
  std::filesystem::create_directories(folder / "cache");
  open_cached(entry, data, folder / "cache");
  const std::filesystem::path file = files_in(folder / "cache").front();
  const std::string good = testing::read_bytes(file);
  // A flipped bit among the voxels is found when its brick is read.
  std::string bad = good;
  bad[bad.size() - 5] ^= 1;
  testing::write_bytes(file, bad);
  const auto damaged = open_cached(entry, data, folder / "cache");
  std::vector<float> image(static_cast<std::size_t>(2 * voxel_count(kShape)));
  EXPECT_THAT(error_of(ErrorKind::kData,
                       [&] {
                         damaged->read_box({0, 0, 0}, kShape, image, {});
                       }),
              HasSubstr("another digest than was written"));
  // A damaged header, a cut file and what a killed process left are made anew.
  bad = good;
  bad[40] ^= 1;
  for (const std::string& content :
       {bad, good.substr(0, good.size() - 1), good.substr(0, 20), std::string()}) {
    testing::write_bytes(file, content);
    testing::write_bytes(folder / "cache" / (".tmp-1-" + file.filename().string()), "half");
    open_cached(entry, data, folder / "cache")->read_box({0, 0, 0}, kShape, image, {});
    EXPECT_EQ(testing::read_bytes(file), good);
    EXPECT_EQ(files_in(folder / "cache").size(), 1u);
  }
}

TEST(CaseCache, ProcessesThatWantTheSameCaseShareIt) {
  const TempFolder folder;
  testing::write_counting_case(folder / "a.h5", kShape, label_of, 2);
  const DataOptions data = options_for(folder);
  std::filesystem::create_directories(folder / "cache");
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        const auto source = open_cached(case_of_file(folder / "a.h5"), data, folder / "cache");
        ::_exit(source->foreground().count(1) == 31 * 4 ? 0 : 2);
      } catch (...) {
        ::_exit(1);
      }
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(files_in(folder / "cache").size(), 1u);
}

TEST(CaseCache, AFolderThatCannotBeUsed) {
  const TempFolder folder;
  testing::write_bytes(folder / "file", "x");
  DataOptions data = testing::plain_options();
  data.cache_folder = (folder / "file" / "below").string();
  EXPECT_THAT(error_of(ErrorKind::kResource, [&] { cache_folder(data); }), HasSubstr("data.cache_folder"));
  data.cache_folder.reset();
  data.train = {(folder / "file" / "a.h5").string()};  // nothing can be made beside it
  EXPECT_THAT(cache_folder(data).filename().string(), HasSubstr("tandem-cache-"));
}

TEST(ClassIndex, PackedAndBack) {
  ClassIndex index(3, {2, 2, 3});
  const std::uint8_t rows[][3] = {{0, 1, 1}, {0, 0, 0}, {2, 1, 2}, {1, 0, 2}};
  for (const auto& row : rows) index.add_row(row);
  const ClassIndex again = ClassIndex::unpacked(index.packed(), {2, 2, 3});
  for (const std::int64_t cls : {1, 2}) {
    ASSERT_EQ(again.count(cls), index.count(cls));
    for (std::int64_t k = 0; k < index.count(cls); ++k) {
      EXPECT_EQ(again.locate(cls, k).row, index.locate(cls, k).row);
      EXPECT_EQ(again.locate(cls, k).ordinal, index.locate(cls, k).ordinal);
    }
  }
}

}  // namespace
}  // namespace tandem

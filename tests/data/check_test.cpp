// Every fault of every file in one list, and nothing for a sound set.
#include "data/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>

#include "data/nifti.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using testing::plain_grid;
using testing::TempFolder;
using testing::write_counting_case;

constexpr Index3 kShape{4, 5, 6};

Volume counting_image(float first = 0) {
  Volume image{plain_grid(kShape), 1, {}};
  for (std::int64_t i = 0; i < voxel_count(kShape); ++i)
    image.values.push_back(first + static_cast<float>(i));
  return image;
}

LabelVolume labels_with(std::int32_t value) {
  LabelVolume labels{plain_grid(kShape), std::vector<std::int32_t>(120)};
  labels.values[7] = labels.values[9] = value;
  return labels;
}

std::string all_text(const CheckReport& report) {
  std::string text;
  for (const Finding& finding : report.findings)
    text += fmt::format("{} {}: {}\n", finding.severity == Severity::kError ? "E" : "W",
                        std::filesystem::path(finding.file).filename().string(), finding.text);
  return text;
}

void cut_bytes(const std::filesystem::path& path, std::size_t count) {
  const std::string bytes = testing::read_bytes(path);
  testing::write_bytes(path, bytes.substr(0, bytes.size() - count));
}

TEST(DataCheck, ASoundSetHasNoFindings) {
  const TempFolder folder;
  write_case(folder / "a.h5", "a", counting_image(), nullptr);
  const LabelVolume labels = labels_with(1);
  write_case(folder / "a.h5", "a", counting_image(), &labels);
  write_case(folder / "b.h5", "b", counting_image(1), &labels);
  DataOptions data = testing::plain_options({(folder / "a.h5").string()});
  data.validation = {(folder / "b.h5").string()};
  const CheckReport report = check_data(data, {});
  EXPECT_EQ(report.cases, 2);
  EXPECT_EQ(all_text(report), "");
}

TEST(DataCheck, AllFaultsOfAllFilesInOneGo) {
  const TempFolder folder;
  const LabelVolume good = labels_with(1), wrong = labels_with(9), empty = labels_with(0);
  write_case(folder / "a.h5", "a", counting_image(), &wrong);
  Volume image = counting_image(1);
  image.values[65] = NAN, image.values[70] = INFINITY;
  write_case(folder / "b.h5", "b", image, &empty);
  write_case(folder / "c.h5", "c", counting_image(2), nullptr);
  testing::write_bytes(folder / "d.h5", "no HDF5");
  write_case(folder / "e.h5", "e", {plain_grid(kShape), 1, std::vector<float>(120, 3)}, &good);
  write_counting_case(
      folder / "f.h5", kShape, [](const Index3&) { return 1; }, 2);
  write_case(folder / "val.h5", "val", counting_image(), &good);  // the image of a.h5
  DataOptions data = testing::plain_options({folder.path().string(), (folder / "none.h5").string()});
  data.train = {(folder / "[a-f].h5").string(), (folder / "none.h5").string()};
  data.validation = {(folder / "val.h5").string()};
  data.labels[1].name = "hip_left";
  AugmentOptions augment;
  augment.mirror = {"z", "x"};
  const CheckReport report = check_data(data, augment);
  EXPECT_EQ(report.cases, 7);
  const std::string text = all_text(report);
  for (const char* expected :
       {"E a.h5: label: got value 9 in 2 voxels, the first at [0, 1, 1] (z, y, x), expected a value of "
        "data.labels",
        "E b.h5: channel 0: got 2 voxels not finite, expected none; the first at [2, 0, 5] (z, y, x): nan",
        "W b.h5: label: got no foreground voxel", "E c.h5: got no labels", "no intact HDF5 file",
        "W e.h5: channel 0: every voxel is 3", "E f.h5: got 2 channels, expected 1", "got no such file",
        "E val.h5: got the same image as", "in data.train, expected no case of data.train in data.validation",
        "augment.mirror has x (left and right), but sides matter to hip_left"})
    EXPECT_THAT(text, HasSubstr(expected));
  EXPECT_EQ(report.findings.size(), 11u) << text;
}

TEST(DataCheck, NiftiPairsGridsOrientationsAndCutFiles) {
  const TempFolder folder;
  write_nifti(folder / "a.nii.gz", counting_image());
  write_nifti(folder / "a_seg.nii.gz", labels_with(1));
  const Geometry other = plain_grid({4, 5, 7});
  write_nifti(folder / "b.nii.gz", counting_image(1));
  write_nifti(folder / "b_label.nii.gz", LabelVolume{other, std::vector<std::int32_t>(140, 1)});
  write_nifti(folder / "c.nii.gz", counting_image(2));
  cut_bytes(folder / "c.nii.gz", 3);  // within the checksum
  write_nifti(folder / "c_seg.nii.gz", labels_with(1));
  Affine left = affine_of_spacing({1, 1, 1});
  left[0] = -1;
  const Geometry las(SourceGrid{kShape, left, nifti_space_of(left)});
  write_nifti(folder / "d.nii.gz", Volume{las, 1, counting_image(3).values});
  write_nifti(folder / "d_seg.nii.gz", LabelVolume{las, labels_with(1).values});
  DataOptions data = testing::plain_options({folder.path().string()});
  data.format = "nifti";
  CheckReport report = check_data(data, {});
  EXPECT_EQ(report.cases, 4) << all_text(report);
  const std::string text = all_text(report);
  EXPECT_THAT(text, HasSubstr("b_label.nii.gz: shape z, y, x: got [4, 5, 7], expected [4, 5, 6] as"));
  EXPECT_THAT(text, HasSubstr("c.nii.gz: checksum: got 0 bytes (the file is truncated), expected 8"));
  EXPECT_THAT(text, HasSubstr("W : got files of different orientations: LAS (1, as "));
  EXPECT_EQ(report.findings.size(), 3u) << text;
  data.orientation = Orientation::kKeep;
  EXPECT_EQ(check_data(data, {}).errors(), 3);
}

TEST(DataCheck, FilesWithoutAJob) {
  const TempFolder folder;
  write_nifti(folder / "a.nii", counting_image());
  write_nifti(folder / "b.nii", counting_image());
  const CheckReport report = check_files({(folder / "a.nii").string(), (folder / "b.nii").string()});
  EXPECT_EQ(report.cases, 2);
  EXPECT_THAT(all_text(report), HasSubstr("W b.nii: has the same image as"));
  EXPECT_EQ(report.findings.size(), 1u);
}

}  // namespace
}  // namespace tandem

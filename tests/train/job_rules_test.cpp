// Rules of a job that follow from its data, not from its file.
#include <gmock/gmock.h>

#include "data/nifti.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"
#include "train/job.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

// Regions of dataset.json need a loss of independent channels as those of the job file do.
TEST(JobRules, RegionsOfADataSetNeedTheirLoss) {
  const testing::TempFolder folder;
  std::filesystem::create_directories(folder / "imagesTr");
  std::filesystem::create_directories(folder / "labelsTr");
  const Index3 shape{1, 2, 3};
  write_nifti(folder / "imagesTr/a_0000.nii.gz",
              Volume{testing::plain_grid(shape), 1, std::vector<float>(6, 1.0f)});
  write_nifti(folder / "labelsTr/a.nii.gz", LabelVolume{testing::plain_grid(shape), {0, 1, 2, 0, 1, 2}});
  testing::write_bytes(
      folder / "dataset.json",
      R"({"channel_names": {"0": "CT"}, "labels": {"background": 0, "whole": [1, 2], "core": 2},)"
      R"( "regions_class_order": [1, 2], "numTraining": 1, "file_ending": ".nii.gz"})");
  testing::write_bytes(folder / "job.yaml", "data: {format: nnunet, train: [.]}\ntrain: {iterations: 1}\n");
  EXPECT_THAT(testing::error_of(ErrorKind::kConfig, [&] { load_job(folder / "job.yaml", {}); }),
              HasSubstr("'loss.name': got dice_ce with data.regions, expected dice_bce or bce"));
  const JobOptions job = load_job(folder / "job.yaml", {"loss.name=dice_bce"});
  EXPECT_EQ(job.data.outputs(), 2);
}

}  // namespace
}  // namespace tandem

// Folders of predictions against folders of labels: reading, matching, classes, and what does not fit.
#include "data/label_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/case_file.h"
#include "data/nifti.h"
#include "data/prediction_file.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::plain_grid;
using testing::TempFolder;

class LabelFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "p");
    std::filesystem::create_directories(folder_ / "l");
  }
  void put(const std::string& name, const std::vector<std::int32_t>& values,
           const Index3& shape = {1, 2, 3}) {
    write_nifti(folder_ / name, LabelVolume{plain_grid(shape), values});
  }
  SegmentationScores score(const std::vector<LabelClass>& classes = {}) {
    return score_label_files(match_label_files(folder_ / "p", folder_ / "l"), classes, OtherLabels::kError,
                             {.metrics = {"hd"}});
  }
  TempFolder folder_;
};

TEST_F(LabelFolders, CasesAreMatchedByNameAndEveryValueIsAClass) {
  put("l/b.nii", {0, 4, 4, 0, 9, 9});
  put("p/b.nii.gz", {0, 4, 0, 0, 9, 9});
  put("l/a.nii.gz", {0, 0, 0, 0, 0, 0});
  put("p/a.nii", {0, 0, 0, 0, 0, 0});
  put("p/extra.nii", {0, 0, 0, 0, 0, 0});
  const SegmentationScores scores = score();
  EXPECT_THAT(scores.names(), ElementsAre("background", "4", "9"));
  ASSERT_EQ(scores.cases().size(), 2u);
  EXPECT_EQ(scores.cases()[0].id, "a");
  EXPECT_TRUE(scores.cases()[0].scores[1].absent);
  EXPECT_NEAR(scores.cases()[1].scores[1].dice, 2.0 / 3, 1e-12);
  EXPECT_EQ(scores.cases()[1].scores[1].hd, 1);
  EXPECT_EQ(scores.cases()[1].scores[2].dice, 1);
}

TEST_F(LabelFolders, AJobSaysWhatTheValuesAre) {
  // Classes of one value each keep it; merged ones are written as their index.
  put("l/a.nii", {0, 77, 78, 80, 0, 0});
  put("p/a.nii", {0, 1, 1, 2, 2, 0});
  const SegmentationScores scores = score({{"background", {0}}, {"hip", {77, 78}}, {"gluteus", {80}}});
  EXPECT_THAT(scores.names(), ElementsAre("background", "hip", "gluteus"));
  EXPECT_EQ(scores.cases()[0].scores[1].dice, 1);
  EXPECT_NEAR(scores.cases()[0].scores[2].dice, 2.0 / 3, 1e-12);
  EXPECT_THAT(error_of(ErrorKind::kData,
                       [&] {
                         score({{"background", {0}}, {"hip", {77, 78}}});
                       }),
              HasSubstr("p/a.nii: /label: got values 2 (2 voxels)"));
}

TEST_F(LabelFolders, HdfPredictionsMeetCaseFiles) {
  testing::write_counting_case(folder_ / "l/c.h5", {2, 3, 4},
                               [](const Index3& at) { return at[0] == 0 ? 1 : 2; });
  const CaseFile reference(folder_ / "l/c.h5");
  std::vector<std::int32_t> classes(24, 1);
  std::fill(classes.begin() + 12, classes.end(), 2);
  classes[23] = 0;
  write_prediction(folder_ / "p/c.h5", reference.info(), classes,
                   LabelMap(std::vector<LabelClass>{{"background", {0}}, {"a", {1}}, {"b", {2}}}));
  const SegmentationScores scores = score();
  EXPECT_EQ(scores.cases()[0].scores[1].dice, 1);
  EXPECT_NEAR(scores.cases()[0].scores[2].dice, 22.0 / 23, 1e-12);
}

TEST_F(LabelFolders, SpacingIsThatOfTheFile) {
  const Affine affine = affine_of_spacing({2, 1, 5});
  const Geometry grid(SourceGrid{{1, 1, 3}, affine, nifti_space_of(affine)});
  write_nifti(folder_ / "l/a.nii", LabelVolume{grid, {1, 0, 0}});
  write_nifti(folder_ / "p/a.nii", LabelVolume{grid, {0, 1, 0}});
  EXPECT_EQ(score().cases()[0].scores[1].hd, 5);
}

TEST_F(LabelFolders, WhatDoesNotFitIsNamed) {
  const auto error = [&] { return error_of(ErrorKind::kData, [&] { score(); }); };
  EXPECT_THAT(error(), HasSubstr("got no label maps"));
  put("l/a.nii", {0, 1, 0, 0, 0, 0});
  put("l/b.nii", {0, 1, 0, 0, 0, 0});
  put("p/a.nii", {0, 1, 0, 0, 0, 0});
  EXPECT_THAT(error(), HasSubstr("got no prediction for 1 of 2 cases: b"));
  put("p/b.nii", {0, 1, 0, 0, 0, 0}, {1, 3, 2});
  EXPECT_THAT(error(), HasSubstr("got [1, 3, 2], expected [1, 2, 3]"));
  put("p/b.nii.gz", {0, 1, 0, 0, 0, 0});
  EXPECT_THAT(error(), HasSubstr("case b: got two files"));
  std::filesystem::remove(folder_ / "p/b.nii");
  const Affine affine = affine_of_spacing({1, 1, 2});
  write_nifti(
      folder_ / "p/b.nii.gz",
      LabelVolume{Geometry(SourceGrid{{1, 2, 3}, affine, nifti_space_of(affine)}), {0, 1, 0, 0, 0, 0}});
  EXPECT_THAT(error(), HasSubstr("affine row 0 column 0: got 2, expected 1"));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { match_label_files(folder_ / "none", folder_ / "l"); }),
              HasSubstr("got no such folder"));
}

}  // namespace
}  // namespace tandem

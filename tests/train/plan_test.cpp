// A plan of made-up cases: cropping, masks, sides, and a text that is a job.
#include "train/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "data/nifti.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"
#include "train/job.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempFolder;

// `size` z, y, x of ones in a frame of `frame` zeros, labels 0 and `value`.
void write_framed(const fs::path& path, const Index3& size, std::int64_t frame, std::int32_t value,
                  const Spacing& spacing = {1, 1, 1}) {
  const Index3 whole{size[0] + 2 * frame, size[1] + 2 * frame, size[2] + 2 * frame};
  const Affine affine = affine_of_spacing(spacing);
  const Geometry grid(SourceGrid{whole, affine, nifti_space_of(affine)});
  Volume image{grid, 1, std::vector<float>(static_cast<std::size_t>(voxel_count(whole)), 0)};
  LabelVolume labels{grid, std::vector<std::int32_t>(image.values.size(), 0)};
  for (std::int64_t z = frame; z < frame + size[0]; ++z)
    for (std::int64_t y = frame; y < frame + size[1]; ++y)
      for (std::int64_t x = frame; x < frame + size[2]; ++x)
        image.values[static_cast<std::size_t>((z * whole[1] + y) * whole[2] + x)] = static_cast<float>(1 + x);
  labels.values[static_cast<std::size_t>(voxel_count(whole) / 2)] = value;
  write_case(path, path.stem().string(), image, &labels);
}

JobOptions job_of(const std::string& text) {
  JobOptions job;
  parse_options(parse_yaml_text(text, "plan.yaml"), fields(job));
  return job;
}

TEST(Plan, CropMaskAndClassesOfCaseFiles) {
  const TempFolder folder;
  write_framed(folder / "a.h5", {20, 24, 28}, 4, 7);
  write_framed(folder / "b.h5", {24, 24, 32}, 4, 9);
  const PlanSurvey survey = survey_for_plan({folder.path().string()});
  EXPECT_THAT(survey.cropped, ElementsAre(Index3{20, 24, 28}, Index3{24, 24, 32}));
  const JobPlan plan = plan_job(survey, 8);
  EXPECT_TRUE(plan.crops);
  EXPECT_TRUE(plan.masked);  // 20*24*28 of 28*32*36
  EXPECT_TRUE(plan.keeps_spacing);
  EXPECT_THAT(plan.shape, ElementsAre(22, 24, 30));
  EXPECT_EQ(plan.network.topology.patch, (Index3{24, 24, 32}));
  const JobOptions job = job_of(plan_text(survey, plan, "p", {"cases"}, 8));
  EXPECT_EQ(job.data.labels,
            (std::vector<LabelClass>{{"background", {0}}, {"label_7", {7}}, {"label_9", {9}}}));
  EXPECT_EQ(job.data.normalize,
            (std::vector<NormalizeOptions>{{.channel = 0, .kind = NormalizeKind::kZscore, .masked = true}}));
  EXPECT_TRUE(job.data.crop_nonzero);
  EXPECT_EQ(job.data.split.folds, 2);
  EXPECT_FALSE(job.data.spacing);
  EXPECT_EQ(Index3(job.patch.size), plan.network.topology.patch);
  EXPECT_EQ(job.model.unet3d.strides, plan.network.topology.strides);
  EXPECT_EQ(job.model.unet3d.kernels, plan.network.topology.kernels);
  EXPECT_EQ(job.model.unet3d.size_multiple(), plan.network.topology.multiple());
  EXPECT_EQ(job.train.batch_size, plan.network.batch);
  EXPECT_EQ(job.augment.mirror.size(), 3u);
  EXPECT_EQ(job.augment.rotate_deg, 30);
  EXPECT_EQ(job.augment.noise_std, (std::optional<std::array<double, 2>>{{0, 0.1}}));
  EXPECT_EQ(job.augment.probability.noise, 0.1);
  EXPECT_EQ(job.augment.probability.brightness, 0.15);
}

// nnU-Net's rule: the longest edge is more than 3 times the slice axis.
TEST(Plan, FlatPatchesTurnWithinTheirSlices) {
  const TempFolder folder;
  write_framed(folder / "a.h5", {8, 40, 40}, 0, 1, {4, 1, 1});
  const PlanSurvey survey = survey_for_plan({folder.path().string()});
  const JobPlan plan = plan_job(survey, 8);
  EXPECT_EQ(plan.network.topology.patch, (Index3{8, 40, 40}));
  EXPECT_EQ(job_of(plan_text(survey, plan, "p", {"cases"}, 8)).augment.rotate_deg, 180);
}

TEST(Plan, SpacingsAndMistakes) {
  const TempFolder folder;
  write_framed(folder / "a.h5", {16, 16, 16}, 0, 1, {2, 1, 1});
  write_framed(folder / "b.h5", {16, 16, 16}, 0, 1, {3, 1, 1});
  const PlanSurvey survey = survey_for_plan({(folder / "*.h5").string()});
  const JobPlan plan = plan_job(survey, 8);
  EXPECT_FALSE(plan.crops);
  EXPECT_THAT(plan.spacing_mm, ElementsAre(2.5, 1, 1));
  EXPECT_THAT(plan.shape, ElementsAre(16, 16, 16));  // 13 and 19
  EXPECT_THAT(job_of(plan_text(survey, plan, "p", {"x"}, 8)).data.spacing,
              ::testing::Optional(ElementsAre(2.5, 1, 1)));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { survey_for_plan({(folder / "none.h5").string()}); }),
              HasSubstr("no such file"));
  write_framed(folder / "b.h5", {16, 16, 16}, 0, 0);
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { survey_for_plan({(folder / "b.h5").string()}); }),
              HasSubstr("got labels of 0 only"));
}

TEST(Plan, NiftiImagesWithLabelMaps) {
  const TempFolder folder;
  Volume image{testing::plain_grid({16, 16, 16}), 1, std::vector<float>(4096, 3)};
  LabelVolume labels{testing::plain_grid({16, 16, 16}), std::vector<std::int32_t>(4096, 4)};
  write_nifti(folder / "a.nii.gz", image);
  write_nifti(folder / "a_label.nii.gz", labels);
  const PlanSurvey survey = survey_for_plan({folder.path().string()});
  const JobOptions job = job_of(plan_text(survey, plan_job(survey, 8), "p", {"."}, 8));
  EXPECT_EQ(job.data.format, "nifti");
  EXPECT_EQ(job.data.normalize.front().kind, NormalizeKind::kZscore);
  EXPECT_FALSE(job.data.split.active());  // one case
  EXPECT_EQ(job.select.metric, "none");
}

TEST(Plan, AnNnunetFolderKeepsItsLabelsAndSides) {
  const TempFolder folder;
  fs::create_directories(folder / "imagesTr");
  fs::create_directories(folder / "labelsTr");
  for (const char* id : {"a", "b"}) {
    Volume image{testing::plain_grid({16, 16, 16}), 1, std::vector<float>(4096, -900)};
    image.values[5] = 100;
    LabelVolume labels{testing::plain_grid({16, 16, 16}), std::vector<std::int32_t>(4096, 0)};
    labels.values[5] = 2;
    write_nifti(folder / "imagesTr" / (std::string(id) + "_0000.nii.gz"), image);
    write_nifti(folder / "labelsTr" / (std::string(id) + ".nii.gz"), labels);
  }
  std::ofstream(folder / "dataset.json")
      << R"({"channel_names": {"0": "CT"}, "labels": {"background": 0, "left_kidney": 1, "right_kidney": 2},
             "numTraining": 2, "file_ending": ".nii.gz"})";
  const PlanSurvey survey = survey_for_plan({folder.path().string()});
  EXPECT_EQ(survey.data.format, "nnunet");
  EXPECT_EQ(survey.data.outputs(), 3);
  const std::string text = plan_text(survey, plan_job(survey, 8), "kidneys", {folder.path().string()}, 8);
  const JobOptions job = job_of(text);
  EXPECT_EQ(job.data.format, "nnunet");
  EXPECT_TRUE(job.data.labels.empty());
  EXPECT_EQ(job.data.normalize.front().kind, NormalizeKind::kCt);
  EXPECT_THAT(job.augment.mirror, ElementsAre("z", "y"));
}

}  // namespace
}  // namespace tandem

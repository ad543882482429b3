// Looking at the cases, and the decisions.
#include "train/plan.h"

#include <algorithm>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "data/case_list.h"
#include "data/nnunet.h"
#include "data/nonzero_mask.h"
#include "data/split.h"

namespace tandem {
namespace {

constexpr std::size_t kMaxClasses = 255;
constexpr double kMaskedBelow = 0.75;     // part that cropping leaves
constexpr double kBatchDiceBelow = 0.25;  // part of the median shape that a patch is
constexpr float kCtBelow = -500;          // Hounsfield units: air

void read_voxels(const VoxelSource& source, PlanSurvey& survey) {
  const CaseInfo& info = source.info();
  const Index3& shape = info.geometry.shape();
  const auto plane = static_cast<std::size_t>(shape[1] * shape[2]);
  std::vector<float> values(plane * static_cast<std::size_t>(info.channels));
  std::vector<std::int32_t> labels(plane);
  for (std::int64_t z = 0; z < shape[0]; ++z) {
    source.read_image({z, 0, 0}, {1, shape[1], shape[2]}, values);
    source.read_labels({z, 0, 0}, {1, shape[1], shape[2]}, labels);
    for (const std::int32_t label : labels) ++survey.label_voxels[label];
    const auto end = values.begin() + static_cast<std::ptrdiff_t>(plane);
    survey.lowest = std::min(survey.lowest, *std::min_element(values.begin(), end));
  }
}

void add_case(const CaseEntry& entry, PlanSurvey& survey) {
  const std::unique_ptr<VoxelSource> source = open_case(entry);
  const CaseInfo& info = source->info();
  if (!info.has_labels)
    throw Error(ErrorKind::kData,
                fmt::format("[plan] {}: got a case without labels, expected a labelled one", entry.file()),
                how_to_label(entry.file()));
  if (!survey.cases.empty() && info.channels != survey.cases.front().channels)
    fail(ErrorKind::kData, "[plan] {}: got {}, expected {} as {}", entry.file(),
         counted(info.channels, "channel"), survey.cases.front().channels, survey.cases.front().file);
  const auto box = nonzero_box(*source);
  survey.cropped.push_back(box ? box->size : info.geometry.shape());
  read_voxels(*source, survey);
  survey.cases.push_back(info);
}

// Of the median case: part of its voxels within its box.
double median_kept_part(const PlanSurvey& survey) {
  std::vector<double> parts;
  for (std::size_t i = 0; i < survey.cases.size(); ++i)
    parts.push_back(static_cast<double>(voxel_count(survey.cropped[i])) /
                    static_cast<double>(voxel_count(survey.cases[i].geometry.shape())));
  std::sort(parts.begin(), parts.end());
  return (parts[(parts.size() - 1) / 2] + parts[parts.size() / 2]) / 2;
}

std::vector<NormalizeOptions> kinds_of(const PlanSurvey& survey) {
  if (!survey.data.normalize.empty()) return survey.data.normalize;
  std::vector<NormalizeOptions> kinds;
  for (std::int64_t c = 0; c < survey.cases.front().channels; ++c)
    kinds.push_back(
        {.channel = c,
         .kind = c == 0 && survey.lowest < kCtBelow ? NormalizeKind::kCt : NormalizeKind::kZscore});
  return kinds;
}

}  // namespace

std::vector<Spacing> PlanSurvey::spacings() const {
  std::vector<Spacing> list;
  for (const CaseInfo& info : cases) list.push_back(info.geometry.spacing_mm());
  return list;
}

PlanSurvey survey_for_plan(const std::vector<std::string>& patterns) {
  PlanSurvey survey;
  survey.data.train = patterns;
  const bool nnunet = patterns.size() == 1 &&
                      std::filesystem::exists(std::filesystem::path(patterns.front()) / "dataset.json");
  if (nnunet) {
    survey.data.format = "nnunet";
    complete_from_nnunet(survey.data);
  }
  for (const CaseEntry& entry : nnunet ? training_cases(survey.data) : list_cases(patterns))
    add_case(entry, survey);
  if (survey.cases.empty()) fail(ErrorKind::kData, "[plan] got no cases, expected at least one");
  if (!nnunet && is_nifti_name(survey.cases.front().file)) survey.data.format = "nifti";
  if (survey.label_voxels.size() > kMaxClasses)
    fail(ErrorKind::kData, "[plan] got {} label values, expected at most {}: are the labels a label map?",
         survey.label_voxels.size(), kMaxClasses);
  if (!nnunet) {
    survey.data.labels.push_back({"background", {0}});
    for (const auto& [value, voxels] : survey.label_voxels)
      if (value != 0) survey.data.labels.push_back({fmt::format("label_{}", value), {value}});
    if (survey.data.labels.size() < 2)
      fail(ErrorKind::kData, "[plan] got labels of 0 only, expected at least one other value");
  }
  survey.data.normalize = kinds_of(survey);
  return survey;
}

JobPlan plan_job(const PlanSurvey& survey, double memory_gb) {
  JobPlan plan;
  const std::vector<Spacing> spacings = survey.spacings();
  plan.spacing_mm = planned_spacing(spacings, survey.cropped);
  plan.keeps_spacing = std::all_of(spacings.begin(), spacings.end(), [&](const Spacing& spacing) {
    return resampled_shape({10000, 10000, 10000}, spacing, plan.spacing_mm) == Index3{10000, 10000, 10000};
  });
  std::vector<Index3> resampled;
  for (std::size_t i = 0; i < spacings.size(); ++i)
    resampled.push_back(resampled_shape(survey.cropped[i], spacings[i], plan.spacing_mm));
  plan.shape = median_shape(resampled);
  for (std::size_t i = 0; i < spacings.size(); ++i)
    plan.crops = plan.crops || survey.cropped[i] != survey.cases[i].geometry.shape();
  plan.kept_part = median_kept_part(survey);
  plan.masked = plan.kept_part < kMaskedBelow;
  plan.network = plan_network({.spacing_mm = plan.spacing_mm,
                               .shape = plan.shape,
                               .cases = static_cast<std::int64_t>(survey.cases.size()),
                               .outputs = survey.data.outputs(),
                               .memory_gb = memory_gb});
  plan.batch_dice = static_cast<double>(voxel_count(plan.network.topology.patch)) <
                    kBatchDiceBelow * plan.shape[0] * plan.shape[1] * plan.shape[2];
  return plan;
}

}  // namespace tandem

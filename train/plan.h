// `tandem plan`: what a data set is like, and the job that follows from it. The rules between the two are
// train/plan_network.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/options.h"
#include "data/voxel_source.h"
#include "train/plan_network.h"

namespace tandem {

struct PlanSurvey {
  DataOptions data;  // format and train; of an nnU-Net folder labels, regions and normalize too
  std::vector<CaseInfo> cases;
  std::vector<Index3> cropped;                        // shape of each case's box of voxels that are not 0
  std::map<std::int32_t, std::int64_t> label_voxels;  // by stored value
  float lowest = 0;                                   // of the first channel
  std::vector<Spacing> spacings() const;
};

// Reads every case: `patterns` are files, folders or globs as in data.train, or one nnU-Net raw data folder
// (with dataset.json). Error{kData} for a case without labels, cases with different numbers of channels, a
// voxel that is not finite, or more label values than classes can be.
PlanSurvey survey_for_plan(const std::vector<std::string>& patterns);

// What was decided, with the numbers it follows from.
struct JobPlan {
  Spacing spacing_mm{};
  bool keeps_spacing = false;  // all cases have it already
  MedianShape shape{};         // after cropping and resampling
  bool crops = false;          // any case has an edge of zeros
  double kept_part = 1;        // median part of the voxels that cropping leaves
  bool masked = false;         // z-scores by the mask: cropping removes more than a quarter
  bool batch_dice = false;     // a patch is less than a quarter of the median shape
  NetworkPlan network;
};
JobPlan plan_job(const PlanSurvey& survey, double memory_gb);

// Commented YAML that load_job accepts. Classes of case files are named label_<value>; names that say left or
// right switch mirroring of x off. `data_paths` stand in data.train.
std::string plan_text(const PlanSurvey& survey, const JobPlan& plan, const std::string& name,
                      const std::vector<std::string>& data_paths, double memory_gb);

}  // namespace tandem

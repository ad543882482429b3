// `tandem init`: a commented job file for cases that are there. What a job's keys are is train/job.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/case_list.h"
#include "data/voxel_source.h"

namespace tandem {

// What is known of the cases of a folder.
struct CasesSurvey {
  std::string format;  // of data.format
  std::vector<CaseInfo> cases;
  std::map<std::int32_t, std::int64_t> label_voxels;  // by stored value, of the cases that were read
  std::int64_t read_cases = 0;                        // labels and values of so many, the first ones
  float lowest = 0, highest = 0;                      // of their first channel
};

// Looks at `entries`: all of their headers, voxels of at most `max_read`. Error{kData} for a file
// that cannot be read, cases without labels, or with different numbers of channels.
CasesSurvey survey_cases(const std::vector<CaseEntry>& entries, std::int64_t max_read);

struct TemplateOptions {
  std::string name = "job";
  double validation_share = 0.2;  // of the cases, the last ones; none of a single case
};

// YAML that load_job accepts. Classes are named label_<value>; the patch is the median shape, at most 64^3
// voxels, on multiples of the model's strides; an image below -500 is taken for CT (HU).
std::string job_template(const CasesSurvey& survey, const TemplateOptions& options);

}  // namespace tandem

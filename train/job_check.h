// Whether a job can be trained, as far as its file says: the one place of what `config check`, `train`, a dry
// run and every point of a sweep refuse. Case files, memory and checkpoints are looked at when a run starts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/job.h"

namespace tandem {

struct CheckedJob {
  JobOptions job;
  std::vector<std::string> warnings;  // settings without effect, each with its place (train/job_warnings)
};

// load_job for training. Throws one Error{kConfig} with all errors of the file by line: of single values,
// between keys, and between job, model and losses; Error{kDevice} if a device that is not there is the only
// one.
CheckedJob load_checked_job(const std::filesystem::path& path, const std::vector<std::string>& overrides);

// The part that holds for evaluation and prediction too: whether the model labels voxels, and whether
// patch.size fits it.
void check_patch(const JobOptions& job, ErrorList& errors);

}  // namespace tandem

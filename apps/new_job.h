// A job file that a command writes for a person to go on with (`tandem init`, `tandem plan`). What stands in
// it is train/job_template and train/plan_text.
#pragma once

#include <filesystem>
#include <string>

#include "train/job.h"

namespace tandem {

// `path` as a job file in `folder` keeps it: relative where it lies below, so that both can be moved
// together.
std::string path_from(const std::filesystem::path& folder, const std::string& path);

// Writes `text` and returns the job that it is. Errors of parse_options, and then nothing is written.
JobOptions write_new_job(const std::filesystem::path& file, const std::string& text);

}  // namespace tandem

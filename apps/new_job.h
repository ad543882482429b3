// A job file that a command writes for a person to go on with (`tandem init`, `tandem plan`). What stands in
// it is train/job_template and train/plan_text.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/job.h"

namespace tandem {

// `path` as a job file in `folder` keeps it: relative where it lies below, so that both can be moved
// together.
std::string path_from(const std::filesystem::path& folder, const std::string& path);

// The folder in `data` whose dataset.json (nnU-Net's) describes the cases; nothing if there is none.
// Error{kUsage} naming the command that reads it where a file of that name itself is given to `command`.
std::optional<std::filesystem::path> nnunet_folder(std::string_view command,
                                                   const std::vector<std::string>& data);

// Writes `text` and returns the job that it is. Errors of parse_options, and then nothing is written.
JobOptions write_new_job(const std::filesystem::path& file, const std::string& text);

}  // namespace tandem

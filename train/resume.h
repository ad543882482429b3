// What a resumed run is told about the job that wrote its checkpoint.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/job.h"

namespace tandem {

// The job stored in `content`; nothing (and a warning) if this build cannot read it.
std::optional<JobOptions> saved_job(const CheckpointContent& content);

// One line per key that differs and may change what is computed: "optimizer.lr: 0.001 here, 0.002 in the
// checkpoint". Left out: what only concerns logs, saving, validation and workers.
std::vector<std::string> job_changes(JobOptions saved, JobOptions now);

}  // namespace tandem

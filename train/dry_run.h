// `tandem train --dry-run`: what the job would do, after one real step of it. Building and stepping are
// train/run.
#pragma once

#include <string>

#include "train/job.h"
#include "train/run.h"
#include "train/trainer.h"

namespace tandem {

// Time and memory of `step`, the length of the run at that speed, when it validates and saves, how large its
// checkpoints are and whether the disk holds them, and the run folder that it would use. Creates nothing.
std::string dry_run_report(const JobOptions& job, const RunRequest& request, const Trainer& trainer,
                           const StepReport& step);

}  // namespace tandem

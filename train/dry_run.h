// `tandem train --dry-run`: what the job would do, after one real step of it. Building and stepping are
// train/run.
#pragma once

#include <string>

#include "train/job.h"
#include "train/run.h"
#include "train/trainer.h"

namespace tandem {

// Two steps: the first prepares kernels and packs weights, so the second tells the speed.
struct DryRunSteps {
  StepReport first, second;
};

// Time and memory of the steps, the length of the run at the second's speed, when it validates and saves, how
// large its checkpoints are and whether the disk holds them, and the run folder that it would use. Creates
// nothing.
std::string dry_run_report(const JobOptions& job, const RunRequest& request, const Trainer& trainer,
                           const DryRunSteps& steps);

}  // namespace tandem

// Runs a job to its end, again from its own checkpoint where its precision changed on the way.
#include "train/run.h"

#include "train/job_run.h"
#include "train/memory_estimate.h"
#include "train/precision_policy.h"

namespace tandem {

void run_training(const JobOptions& job, const RunRequest& request) {
  JobOptions current = job;
  RunRequest next = request;
  while (true) {
    std::filesystem::path folder;
    expect_memory_for(current, !next.overfit);
    try {
      JobRun(current, next).run(folder);
      return;
    } catch (const PrecisionChange& change) {
      current.precision = change.precision;
      if (change.is_saved) next.folder = {.name = next.folder.name, .folder = folder, .resume = "auto"};
    }
  }
}

}  // namespace tandem

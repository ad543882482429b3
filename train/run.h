// A job from its YAML to a finished run folder: data, trainer, validation, checkpoints, log, signals, resume.
// The step itself is train/trainer.
#pragma once

#include <chrono>
#include <optional>

#include "train/job.h"
#include "train/metrics_log.h"
#include "train/run_folder.h"

namespace tandem {

struct RunRequest {
  RunFolderRequest folder;
  bool dry_run = false;  // build everything, take two steps, say what would happen, write nothing
  bool progress = true;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();  // for train.max_minutes
  std::optional<std::int64_t> overfit;  // train on so many fixed patches of overfit_job()
};

// Trains to the job's last step and saves it. Throws Error{kStopped} (exit 75) after a stop signal, with a
// checkpoint of the last finished step; Error{kNumeric} when the loss scaler gives up, likewise with the last
// good state saved.
void run_training(const JobOptions& job, const RunRequest& request);

// One line on the life of the loss scale, from the run's metrics.jsonl: "65536 -> 32768 (overflow at step 3)
// -> ...".
std::string loss_scale_history(const std::filesystem::path& run_folder);
std::string loss_scale_history(const MetricsHistory& history);

}  // namespace tandem

// A job's model ready to compute: device, precision, model and parameters, fresh or from a checkpoint. Shared
// by training, evaluation, prediction and summary.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "data/reading_stop.h"
#include "data/voxel_source.h"
#include "layers/module.h"
#include "train/checkpoint.h"
#include "train/job.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace tandem {

struct ModelSession {
  Context context;
  Precision precision;
  std::unique_ptr<Module> model;
};

// Sets the process's compute threads, checks the device and the patch against the model, and makes the model
// (its parameters are not bound yet). Error{kConfig}, Error{kDevice}.
ModelSession make_session(const JobOptions& job, std::int64_t in_channels);

// The job with what its normalisation takes from the training set: so it stands in the run folder, where
// evaluation and prediction find it. `stop_requested`: with_fingerprint's.
JobOptions with_training_numbers(const JobOptions& job, const StopRequested& stop_requested = {});

// The job's keys as the trainer takes them; `stop_requested` as in TrainerOptions.
TrainerOptions trainer_options(const JobOptions& job, std::function<bool()> stop_requested);

// What decides the last bits of this process's results for `job`.
RunEnvironment run_environment(const JobOptions& job, const Context& context);

// The job of a run folder (its config.resolved.yaml) with overrides, and the checkpoint to use: the folder's
// newest intact one, or the file itself when `path` is a checkpoint.
struct SavedRun {
  std::filesystem::path folder, checkpoint_path;
  JobOptions job;
  CheckpointContent content;
};
SavedRun open_run(const std::filesystem::path& path, const std::vector<std::string>& overrides);

// Model and parameters of `run` in evaluation mode (no gradients, training = false) for inputs such as
// `input`; Error{kData} if it has other channels than the model.
struct EvaluationModel {
  ModelSession session;
  std::unique_ptr<ParamStore> params;
};
EvaluationModel load_model(const SavedRun& run, const CaseInfo& input);

}  // namespace tandem

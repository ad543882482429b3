// The job: every option of the YAML file as one value. Field names are JOB.md's keys; each part's own options
// live with the code that uses them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/config/load.h"
#include "core/params/precision.h"
#include "data/options.h"
#include "layers/models/model_table.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/loss_options.h"

namespace tandem {

enum class ComputeChoice { kFp32, kBf16, kFp16, kAuto };

struct PrecisionOptions {
  ComputeChoice compute = ComputeChoice::kAuto;
  std::vector<std::string> fp32_layers, low_layers;
  bool check_finite = true;
  std::string on_weight_overflow = "abort";  // abort | fp32_layer
  std::string on_repeat_overflow = "abort";  // abort | demote
  LossScaleOptions loss_scale;
};

// train.early_stop
struct EarlyStopOptions {
  std::int64_t patience = 10;  // validations without improvement of select.metric
  double min_delta = 0;
};

struct TrainOptions {
  std::int64_t batch_size = 2;
  std::optional<std::int64_t> iterations, epochs;
  std::int64_t iterations_per_epoch = 250;
  std::int64_t accumulate = 1;
  std::optional<double> clip_norm, clip_value;
  std::optional<EarlyStopOptions> early_stop;
  std::optional<double> max_minutes;

  // Optimizer steps attempted in the whole run.
  std::int64_t total_steps() const { return iterations ? *iterations : *epochs * iterations_per_epoch; }
};

struct SelectOptions {
  std::string metric = "none";  // or a name of data/segmentation_metrics.h's table
  MetricMode mode = MetricMode::kMax;
};

struct CheckpointOptions {
  std::int64_t every = 200;  // steps
  std::int64_t keep_last = 2, keep_best = 1;
  bool verify = true;
};

struct LogOptions {
  std::int64_t every = 10;  // steps
  bool tensorboard = true, report = true;
};

struct JobOptions {
  std::string name = "job";
  std::string task = "segmentation";
  std::int64_t seed = 1234;
  bool deterministic = true;
  std::string device = "auto";
  std::optional<std::int64_t> threads;
  PrecisionOptions precision;
  DataOptions data;
  AugmentOptions augment;
  ModelOptions model;
  PatchOptions patch;
  LossOptions loss;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  TrainOptions train;
  ValidateOptions validate;
  PredictOptions predict;
  SelectOptions select;
  CheckpointOptions checkpoint;
  LogOptions log;
};

Fields fields(PrecisionOptions& options);
Fields fields(EarlyStopOptions& options);
Fields fields(TrainOptions& options);
Fields fields(SelectOptions& options);
Fields fields(CheckpointOptions& options);
Fields fields(LogOptions& options);
Fields fields(JobOptions& options);

// Reads `root` into `job`, completed by the dataset.json of an nnU-Net folder if nothing else is wrong.
// Error{kData} for one that cannot be read.
void read_job(const ConfigNode& root, JobOptions& job, ErrorList& errors);
// The job of `path` with `overrides` ("key=value") applied, completed by the dataset.json of an nnU-Net
// folder. Throws Error{kConfig} with all errors of the file.
JobOptions load_job(const std::filesystem::path& path, const std::vector<std::string>& overrides);

// The dtype of `choice` on this machine: auto is BF16 where AMX or AVX-512 BF16 computes it, else FP32.
DType compute_dtype(ComputeChoice choice);
// Precision as the ParamStore takes it.
Precision precision_of(const PrecisionOptions& options);

}  // namespace tandem

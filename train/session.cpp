// Building a job's model, and opening a finished or interrupted run.
#include "train/session.h"

#include <algorithm>

#include "core/backends/cpu/isa.h"
#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "data/fingerprint.h"
#include "data/volume.h"
#include "train/device_choice.h"
#include "train/job_check.h"
#include "train/trainer.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// What a finished model is made of is not to be overridden.
void require_no_model_keys(const fs::path& run, const std::vector<std::string>& overrides) {
  for (const std::string& override : overrides)
    for (const std::string_view key : {"model", "data.labels", "data.regions"})
      if (override.starts_with(key) &&
          std::string_view("=.").find(override[key.size()]) != std::string_view::npos)
        throw Error(
            ErrorKind::kUsage,
            fmt::format("[run] {}: got an override of {}, which belongs to the checkpoint's run, expected "
                        "none",
                        override, key),
            fmt::format(
                "Its value is in {}; another one needs a training of its own.",
                ((fs::is_directory(run) ? run : run.parent_path()) / "config.resolved.yaml").string()));
}

// A reader would call a job torn.
void require_no_job(const fs::path& path) {
  const std::string name = path.extension().string();
  if ((name == ".yaml" || name == ".yml") && fs::is_regular_file(path))
    throw Error(
        ErrorKind::kUsage,
        fmt::format("[run] {}: got a job file, expected a run folder or a checkpoint (.h5)", path.string()),
        "Train it first: tandem train " + path.string() + "; then name its run folder.");
}

}  // namespace

ModelSession make_session(const JobOptions& job, std::int64_t in_channels) {
  ErrorList errors;
  check_patch(job, errors);
  errors.throw_if_any();
  set_compute_threads(static_cast<int>(job.threads.value_or(0)));
  ModelSession session;
  session.precision = precision_of(job.precision);
  session.context = {.device = device_of(job.device),
                     .compute = session.precision.compute,
                     .seed = static_cast<std::uint64_t>(job.seed)};
  session.model = make_model(job.model, in_channels, job.data.outputs());
  return session;
}

JobOptions with_training_numbers(const JobOptions& job, const StopRequested& stop_requested) {
  JobOptions result = job;
  result.data = with_fingerprint(job.data, stop_requested);
  return result;
}

TrainerOptions trainer_options(const JobOptions& job, std::function<bool()> stop_requested) {
  return {.optimizer = job.optimizer,
          .schedule = job.schedule,
          .loss_scale = job.precision.loss_scale,
          .total_steps = job.train.total_steps(),
          .accumulate = job.train.accumulate,
          .clip_norm = job.train.clip_norm.value_or(0),
          .clip_value = job.train.clip_value.value_or(0),
          .check_finite = job.precision.check_finite,
          .stop_requested = std::move(stop_requested)};
}

RunEnvironment run_environment(const JobOptions&, const Context& context) {
  return {.version = TANDEM_VERSION,
          .isa = std::string(name(cpu_isa())),
          .compute = std::string(name(context.compute)),
          .device = name(context.device),
          .threads = compute_threads()};
}

SavedRun open_run(const fs::path& path, const std::vector<std::string>& overrides) {
  require_no_job(path);
  require_no_model_keys(path, overrides);
  SavedRun run;
  run.checkpoint_path = resolve_checkpoint(path);
  run.folder = fs::is_directory(path) ? path : path.parent_path();
  run.content = load_checkpoint(run.checkpoint_path);
  run.job = load_job(run.folder / "config.resolved.yaml", overrides);
  return run;
}

EvaluationModel load_model(const SavedRun& run, const CaseInfo& input) {
  const std::int64_t in_channels = input.channels;
  EvaluationModel result{.session = make_session(run.job, in_channels)};
  result.session.context.training = false;
  const auto parameters = result.session.model->parameters();
  result.params = std::make_unique<ParamStore>(parameters, result.session.context, result.session.precision);
  // Input channels are the only thing about the first weight that does not come from the job.
  const Tensor* const first = run.content.find("model/" + parameters.front().name);
  if (first != nullptr && first->shape().rank() > 1 && first->shape()[1] != in_channels)
    fail(ErrorKind::kData, "[data] {}: got {}, expected {} as the model was trained with", input.file,
         counted(in_channels, "channel"), first->shape()[1]);
  // The running mean of the weights, if the run kept one, is what it validated with.
  const std::string group =
      run.job.optimizer.ema && run.content.find("ema/" + parameters.front().name) != nullptr ? "ema/"
                                                                                             : "model/";
  std::vector<NamedTensor> targets;
  for (const ParamSegment& segment : result.params->segments())
    targets.push_back(
        {group + segment.name, ParamStore::view(segment, result.params->region(segment.region).master)});
  for (const NamedTensor& buffer : buffer_tensors(*result.session.model, result.session.context.device))
    targets.push_back(buffer);
  restore_tensors(run.content, targets);
  result.params->refresh_copies();
  return result;
}

}  // namespace tandem

// The life of a training run. train() is the loop.
#include "train/job_run.h"

#include <limits>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "data/label_map.h"
#include "train/dry_run.h"
#include "train/evaluate.h"
#include "train/init_from.h"
#include "train/overfit.h"
#include "train/resume.h"
#include "train/run_validation.h"

namespace tandem {

void JobRun::run(std::filesystem::path& folder) {
  if (request_.dry_run) return dry_run();
  if (!request_.overfit)
    validation_ = checked_validation_cases(job_.data, dataset_->channels(), is_stopped());
  folder_ = std::make_unique<RunFolder>(request_.folder);
  folder = folder_->path();
  // Either may fail, so before anything in the folder changes.
  folder_->checkpoint() ? resume(*folder_) : initialise_from(job_.model, trainer_);
  JobOptions resolved = job_;
  folder_->describe(emit_yaml(fields(resolved)), environment_json(run_environment(job_, session_.context)));
  const std::string start_text = start_report(job_, session_, trainer_, std::ssize(dataset_->cases()));
  log_info("{}", start_text);
  log_info("run folder {}", folder_->path().string());
  if (step() > 0) log_info("resumed from step {} of {}", step(), total());
  open_log();
  if (step() >= total() && (validation_.empty() || validated_step_ == step() || !validates_now())) {
    log_info("the run is complete at step {} of {}: raise train.iterations or train.epochs to go on", step(),
             total());
    return;
  }
  metrics_->write(EventMetrics{step(), "start", start_text});
  make_loader();
  train();
  note_usage();
  progress_.clear();
  report();
  const MetricsHistory history = read_metrics(folder_->metrics_path());
  log_info("{}", end_report(trainer_, times_, loss_scale_history(history)));
  if (!request_.overfit) return;
  const double dice = overfit_dice(patch_model(session_.context, *session_.model), *samples_);
  log_info("{}", overfit_verdict(history, *request_.overfit, dice));
}

void JobRun::open_log() {
  const MetricsHistory history = read_metrics(folder_->metrics_path());
  if (!history.validations.empty()) validated_step_ = history.validations.back().step;
  std::vector<std::string> classes = LabelMap(job_.data).output_names();
  classes.erase(classes.begin());  // the background is not scored
  metrics_ = std::make_unique<RunLog>(folder_->path(), job_.log.tensorboard, classes, history);
}

void JobRun::dry_run() {
  log_info("{}", start_report(job_, session_, trainer_, std::ssize(dataset_->cases())));
  checked_validation_cases(job_.data, dataset_->channels(), is_stopped());
  initialise_from(job_.model, trainer_);
  make_loader();
  const StepReport first = trainer_.step(*loader_);
  log_info("{}", dry_run_report(job_, request_, trainer_, {first, trainer_.step(*loader_)}));
}

void JobRun::resume(const RunFolder& folder) {
  const CheckpointContent content = load_checkpoint(*folder.checkpoint());
  const std::optional<JobOptions> saved = saved_job(content);
  if (saved)
    if (const auto adopted = adopted_precision(job_.precision, saved->precision))
      throw PrecisionChange{*adopted};
  std::optional<ScalerKnobs> knobs;
  if (saved) knobs = LossScaler(saved->precision.loss_scale, compute_dtype(saved->precision.compute)).knobs();
  trainer_.load(content, knobs ? &*knobs : nullptr);
  if (saved)
    for (const std::string& line : job_changes(*saved, job_)) log_warning("resume: {}", line);
  if (!saved || (saved->select.metric == job_.select.metric && saved->select.mode == job_.select.mode)) {
    selection_.load(content);
  } else {
    trainer_.forget_metric();
    log_warning(
        "resume: select: another metric or mode: best checkpoints, early stop and plateau begin anew");
  }
  saved_step_ = content.step;
  for (const std::string& line : environment_differences(
           content.environment_json, environment_json(run_environment(job_, session_.context))))
    log_warning("resume: {}: the result will not have the same bits", line);
}

void JobRun::make_loader() {
  samples_ = dataset_;
  const auto seed = static_cast<std::uint64_t>(job_.seed);
  if (request_.overfit) samples_ = std::make_shared<RepeatedSamples>(*dataset_, *request_.overfit, seed);
  const LoaderOptions options{.batch_size = job_.train.batch_size,
                              .seed = seed,
                              .first_batch = step() * job_.train.accumulate,
                              .workers = request_.overfit ? 0 : job_.data.workers,
                              .prefetch = job_.data.prefetch,
                              .stop_requested = is_stopped()};
  loader_ = std::make_unique<Loader>(samples_, options);
}

void JobRun::train() {
  // A stop may have come between a step and its validation.
  if (step() > 0 && validates_now() && validated_step_ != step()) validate();
  while (step() < total()) {
    if (signals_.requested()) stop();
    if (ends_early()) return finish_early();
    one_step();
    const bool last = step() == total();
    if (last) save();
    if (!last && step() % job_.checkpoint.every == 0) save_or_retry_later();
    if (validates_now()) validate();
  }
}

// Whether train.early_stop or train.max_minutes ends the run here.
bool JobRun::ends_early() const {
  const std::chrono::duration<double, std::ratio<60>> minutes =
      std::chrono::steady_clock::now() - request_.start;
  return selection_.should_stop() || (job_.train.max_minutes && minutes.count() >= *job_.train.max_minutes);
}

void JobRun::finish_early() {
  const bool patience = selection_.should_stop();
  const std::string text =
      patience ? selection_.stop_text() : fmt::format("{} min have passed", *job_.train.max_minutes);
  progress_.clear();
  log_info("train.{} ends the run after step {} of {}: {}", patience ? "early_stop" : "max_minutes", step(),
           total(), text);
  if (step() > 0) save();
  if (!patience && step() > 0 && validated_step_ != step()) validate();
  metrics_->write(EventMetrics{step(), patience ? "early_stop" : "max_minutes", text});
}

bool JobRun::validates_now() const {
  return step() == total() || (job_.validate.every > 0 && step() % job_.validate.every == 0);
}

void JobRun::note_usage() { metrics_->write(usage_.take(step(), session_.context.device)); }

void JobRun::validate() {
  if (validation_.empty()) return;
  std::optional<ValidationResult> result;
  try {
    result = run_validation(job_, validation_, session_, trainer_, is_stopped());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kStopped) stop();
    if (error.kind() != ErrorKind::kNumeric) {
      save();  // what was learnt since the last checkpoint is not lost for it
      throw;
    }
    progress_.clear();
    log_warning("step {}: validation: {}", step(), error.what());
    return;
  }
  note_validation(result->scores, result->seconds);
  report(result->record ? &*result->record : nullptr);
}

// What the metric decides is saved before the line is written: a process that dies between the two validates
// again, and Selection passes over what it has seen.
void JobRun::note_validation(const SegmentationScores& scores, double seconds) {
  const double rate = trainer_.rate_factor();
  progress_.clear();
  log_info("step {}: validation mean Dice {:.4f} ({:.1f} s)", step(), scores.mean_dice(), seconds);
  if (selection_.note(step(), selection_.value(scores), trainer_)) {
    saved_step_ = -1;  // saved again if need be
    save_or_retry_later();
  }
  ValidationMetrics line = validation_metrics(scores, job_.validate.metrics);
  line.step = step();
  line.epoch = epoch();
  line.seconds = seconds;
  metrics_->write(line);
  if (trainer_.rate_factor() != rate)
    metrics_->write(
        EventMetrics{step(), "plateau", fmt::format("lr factor {} -> {}", rate, trainer_.rate_factor())});
  validated_step_ = step();
  usage_.add(RunUsage::kValidate, seconds);
  note_usage();
}

void JobRun::report(const ValidationRecorder* validation) {
  if (job_.log.report) update_report(folder_->path(), validation);
}

// A full disk must not end a long run at once: the next interval tries again.
void JobRun::save_or_retry_later() {
  constexpr int kMaxFailedSaves = 3;
  try {
    save();
    failed_saves_ = 0;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource || ++failed_saves_ >= kMaxFailedSaves) throw;
    progress_.clear();
    log_warning("{} The next try is in {} ({} of {}).", error.what(), counted(job_.checkpoint.every, "step"),
                failed_saves_, kMaxFailedSaves);
  }
}

void JobRun::save() {
  if (saved_step_ == step()) return;
  const auto start = std::chrono::steady_clock::now();
  metrics_->sync();
  const std::int64_t per_step = job_.train.accumulate * job_.train.batch_size;
  CheckpointContent content{.step = step(),
                            .epoch = epoch(),
                            .epoch_position = step() % job_.train.iterations_per_epoch * per_step,
                            .total_steps = total(),
                            .config_yaml = emit_yaml(fields(saved_job_)),
                            .environment_json = environment_json(run_environment(job_, session_.context))};
  trainer_.save(content);
  selection_.save(content);
  save_checkpoint(
      folder_->path(), content,
      {.keep_last = keep_all_ ? std::numeric_limits<std::int64_t>::max() : job_.checkpoint.keep_last,
       .verify = job_.checkpoint.verify});
  saved_step_ = step();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  usage_.add(RunUsage::kSave, seconds.count());
}

void JobRun::stop() {
  progress_.clear();
  note_usage();
  save();
  report();
  throw Error(ErrorKind::kStopped,
              fmt::format("[train] stopped by {} after step {} of {}; a checkpoint is saved", signals_.name(),
                          step(), total()),
              "Go on with --resume auto.");
}

}  // namespace tandem

// The life of a training run. JobRun owns everything in the order of its making; train() is the loop.
#include "train/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/log.h"
#include "data/patch_dataset.h"
#include "data/split.h"
#include "train/criterion.h"
#include "train/evaluate.h"
#include "train/overfit.h"
#include "train/precision_policy.h"
#include "train/progress.h"
#include "train/report.h"
#include "train/resume.h"
#include "train/run_log.h"
#include "train/run_report.h"
#include "train/run_usage.h"
#include "train/session.h"
#include "train/signals.h"
#include "train/validation_recorder.h"

namespace tandem {
namespace {

class JobRun {
 public:
  JobRun(const JobOptions& job, const RunRequest& request)
      : job_(with_training_numbers(job)),
        saved_job_(job_),
        request_(request),
        dataset_(std::make_shared<PatchDataset>(job_.data, job_.patch, job_.augment)),
        session_(make_session(job, dataset_->channels())),
        trainer_(session_.context, session_.precision, *session_.model, make_criterion(job.loss),
                 trainer_options(job, signals_)),
        progress_({.enabled = request.progress && !request.dry_run}) {}

  // `folder` is told as soon as it is known.
  void run(std::filesystem::path& folder);

 private:
  std::int64_t step() const { return trainer_.state().attempted; }
  std::int64_t total() const { return job_.train.total_steps(); }
  std::int64_t epoch() const { return step() / job_.train.iterations_per_epoch; }

  void dry_run();
  void resume(const RunFolder& folder);
  void open_log();
  void make_loader();
  void train();
  bool validates_now() const;
  void one_step();
  void attempt();
  void write_step(const StepReport& report);
  void move_to_fp32(const std::string& layer);
  void fall_back();
  [[noreturn]] void leave_for(const PrecisionOptions& precision);
  void note_scale(const StepReport& report);
  void note_usage();
  void validate();
  void report(const ValidationRecorder* validation = nullptr);
  void note_validation(const SegmentationScores& scores, double seconds);
  void save();
  void save_or_retry_later();
  [[noreturn]] void stop();

  const JobOptions job_;
  JobOptions saved_job_;  // what the next checkpoint says: job_, or what the run goes on with
  const RunRequest& request_;
  StopSignals signals_;
  std::shared_ptr<PatchDataset> dataset_;
  std::shared_ptr<const Dataset> samples_;  // what is trained on: dataset_, or fixed patches of it
  ModelSession session_;
  Trainer trainer_;
  Progress progress_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<RunLog> metrics_;
  std::unique_ptr<Loader> loader_;
  std::vector<RankedCheckpoint> best_;
  std::int64_t saved_step_ = -1;
  int failed_saves_ = 0;
  bool keep_all_ = false;
  StepTimes times_;
  RunUsage usage_;
  std::int64_t validated_step_ = -1;  // the last step whose validation is in metrics.jsonl
};

void JobRun::run(std::filesystem::path& folder) {
  if (request_.dry_run) return dry_run();
  check_validation_cases(job_.data, dataset_->channels());
  folder_ = std::make_unique<RunFolder>(request_.folder);
  folder = folder_->path();
  if (folder_->checkpoint()) resume(*folder_);  // may fail, so before anything in the folder changes
  JobOptions resolved = job_;
  folder_->describe(emit_yaml(fields(resolved)), environment_json(run_environment(job_, session_.context)));
  const std::string start_text = start_report(job_, session_, trainer_, dataset_->size());
  log_info("{}", start_text);
  log_info("run folder {}", folder_->path().string());
  if (step() > 0) log_info("resumed from step {} of {}", step(), total());
  open_log();
  if (step() >= total() && (job_.data.validation.empty() || validated_step_ == step())) {
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
  log_info("{}", start_report(job_, session_, trainer_, dataset_->size()));
  make_loader();
  const StepReport report = trainer_.step(*loader_);
  log_info("dry run: one step took {:.0f} ms, loss {:.4f}, event {}; peak memory {}; nothing was written",
           report.step_ms, report.loss + loss_offset(job_.loss), event_name(report.event),
           memory_text(session_.context.device));
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
  best_ = content.best;
  saved_step_ = content.step;
  for (const std::string& line : environment_differences(
           content.environment_json, environment_json(run_environment(job_, session_.context))))
    log_warning("resume: {}: the result will not have the same bits", line);
}

void JobRun::make_loader() {
  samples_ = dataset_;
  const auto seed = static_cast<std::uint64_t>(job_.seed);
  if (request_.overfit) samples_ = std::make_shared<RepeatedSamples>(*dataset_, *request_.overfit, seed);
  loader_ =
      std::make_unique<Loader>(samples_, LoaderOptions{.batch_size = job_.train.batch_size,
                                                       .seed = seed,
                                                       .first_batch = step() * job_.train.accumulate,
                                                       .workers = request_.overfit ? 0 : job_.data.workers,
                                                       .prefetch = job_.data.prefetch});
}

void JobRun::train() {
  // A stop may have come between a step and its validation.
  if (step() > 0 && validates_now() && validated_step_ != step()) validate();
  while (step() < total()) {
    if (signals_.requested()) stop();
    one_step();
    const bool last = step() == total();
    if (last) save();
    if (!last && step() % job_.checkpoint.every == 0) save_or_retry_later();
    if (validates_now()) validate();
  }
}

bool JobRun::validates_now() const {
  return step() == total() || (job_.validate.every > 0 && step() % job_.validate.every == 0);
}

void JobRun::one_step() {
  attempt();
  const StepReport& report = trainer_.last_report();
  times_.add(report);
  usage_.add(report);
  note_scale(report);
  if (report.step % job_.log.every == 0 || report.event != StepEvent::kGood || report.step == 1)
    write_step(report);
  progress_.update({.step = report.step,
                    .total = total(),
                    .loss = report.loss + loss_offset(job_.loss),
                    .lr = report.lr,
                    .scale = trainer_.state().scale,
                    .skips = trainer_.state().attempted - trainer_.state().applied,
                    .step_ms = report.step_ms});
  if (trainer_.state().verdict != ScalerVerdict::kContinue) fall_back();
}

// One step of the trainer. What ends the run leaves a checkpoint first, or is cured by FP32 for a layer.
void JobRun::attempt() {
  try {
    trainer_.step(*loader_);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kStopped) stop();  // the step is taken anew on resume
    const StepState& state = trainer_.state();
    const StepReport& report = trainer_.last_report();
    const bool outgrown = error.kind() == ErrorKind::kNumeric && state.weight_overflow;
    const bool gave_up = error.kind() == ErrorKind::kNumeric && state.verdict != ScalerVerdict::kContinue;
    if (!outgrown && !gave_up && error.kind() != ErrorKind::kData) throw;
    progress_.clear();
    if (outgrown || gave_up) write_step(report);
    if (outgrown && job_.precision.on_weight_overflow == "fp32_layer")
      move_to_fp32(trainer_.params().first_overflowed_copy());
    if (gave_up && job_.precision.on_repeat_overflow == "demote" && report.cause &&
        std::isfinite(report.cause->magnitude))
      move_to_fp32(report.cause->layer + ".weight");
    if (outgrown) throw;
    keep_all_ = true;  // what went wrong may have begun before: earlier checkpoints stay
    save();
    throw Error(
        error.kind(), error.text(),
        error.hint() + fmt::format("\nThe state before it is saved in {}.", folder_->path().string()));
  }
}

void JobRun::write_step(const StepReport& report) {
  StepMetrics line = step_metrics(report, loss_offset(job_.loss));
  line.epoch = (report.step - 1) / job_.train.iterations_per_epoch;
  metrics_->write(line);
}

// Goes on with the layer of `parameter` in FP32; returns if that layer computes in FP32 already.
void JobRun::move_to_fp32(const std::string& parameter) {
  const ParamSegment* segment = trainer_.params().find(parameter);
  if (segment == nullptr || segment->region != ParamRegion::kCast) return;
  const std::string layer = parameter.substr(0, parameter.rfind('.'));
  metrics_->write(EventMetrics{step(), "precision", layer + " computes in FP32 from here on"});
  log_warning("step {}: layer {} computes in FP32 from here on", step(), layer);
  leave_for(with_fp32_layer(job_.precision, layer));
}

// at_floor: fallback_*.
void JobRun::fall_back() {
  const PrecisionOptions next = fallen_back(job_.precision);
  const char* name = next.compute == ComputeChoice::kBf16 ? "BF16" : "FP32";
  metrics_->write(
      EventMetrics{step(), "precision", fmt::format("the job computes in {} from here on", name)});
  progress_.clear();
  log_warning("step {}: gradients overflow at the smallest loss scale: the job computes in {} from here on",
              step(), name);
  leave_for(next);
}

void JobRun::leave_for(const PrecisionOptions& precision) {
  saved_job_ = job_;
  saved_job_.precision = precision;
  saved_step_ = -1;
  save();
  throw PrecisionChange{precision, true};
}

// Every change of the loss scale is an event line: the history needs no step lines.
void JobRun::note_scale(const StepReport& report) {
  const double now = trainer_.state().scale;
  if (now == report.scale) return;
  const std::string_view cause = report.event == StepEvent::kGood ? "growth" : event_name(report.event);
  metrics_->write(
      EventMetrics{report.step, "loss_scale", fmt::format("{} -> {} ({})", report.scale, now, cause)});
}

void JobRun::note_usage() { metrics_->write(usage_.take(step(), session_.context.device)); }

void JobRun::validate() {
  if (job_.data.validation.empty()) return;
  const auto start = std::chrono::steady_clock::now();
  const PatchModel model =
      patch_model(session_.context, *session_.model, [this] { return signals_.requested(); });
  try {
    std::optional<ValidationRecorder> recorder;
    if (job_.log.report) recorder.emplace(step(), LabelMap(job_.data).output_names(), job_.validate.metrics);
    EvaluationRequest request{.window = window_options(job_.validate, job_.patch, job_.augment),
                              .metrics = metric_options(job_.validate)};
    if (recorder) request.on_case = recorder->visitor();
    const SegmentationScores scores = evaluate_cases(job_.data, validation_cases(job_.data), request, model);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    note_validation(scores, seconds.count());
    report(recorder ? &*recorder : nullptr);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kStopped) stop();
    if (error.kind() != ErrorKind::kNumeric) throw;
    progress_.clear();
    log_warning("step {}: validation: {}", step(), error.what());
  }
}

void JobRun::note_validation(const SegmentationScores& scores, double seconds) {
  const double mean_dice = scores.mean_dice();
  ValidationMetrics line = validation_metrics(scores, job_.validate.metrics);
  line.step = step();
  line.epoch = epoch();
  line.seconds = seconds;
  metrics_->write(line);
  usage_.add(RunUsage::kValidate, seconds);
  note_usage();
  progress_.clear();
  log_info("step {}: validation mean Dice {:.4f} ({:.1f} s)", step(), mean_dice, seconds);
  if (job_.select.metric == "dice" &&
      rank_checkpoint(best_, {step(), mean_dice}, true, job_.checkpoint.keep_best)) {
    saved_step_ = -1;  // saved again if need be: the checkpoint holds the list of the best
    save();
  }
}

// The report follows from the other files of the run folder: without it nothing is lost.
void JobRun::report(const ValidationRecorder* validation) {
  if (!job_.log.report) return;
  try {
    if (validation != nullptr) validation->write(folder_->path());
    write_report(folder_->path());
  } catch (const Error& error) {
    progress_.clear();
    log_warning("report.html is not written: {}", error.what());
  }
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
    log_warning("{} The next try is in {} steps ({} of {}).", error.what(), job_.checkpoint.every,
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
                            .best = best_,
                            .config_yaml = emit_yaml(fields(saved_job_)),
                            .environment_json = environment_json(run_environment(job_, session_.context))};
  trainer_.save(content);
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

}  // namespace

void run_training(const JobOptions& job, const RunRequest& request) {
  if (!job.data.regions.empty())
    fail(ErrorKind::kConfig, "[loss] {}: got data.regions, expected none: no loss takes regions yet",
         job.loss.name);
  JobOptions current = job;
  RunRequest next = request;
  while (true) {
    std::filesystem::path folder;
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

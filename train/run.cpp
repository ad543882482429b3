// The life of a training run. JobRun owns everything in the order of its making; train() is the loop.
#include "train/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>

#include "core/base/error.h"
#include "core/base/log.h"
#include "data/fingerprint.h"
#include "data/patch_dataset.h"
#include "data/split.h"
#include "train/criterion.h"
#include "train/dry_run.h"
#include "train/evaluate.h"
#include "train/init_from.h"
#include "train/json.h"
#include "train/memory_estimate.h"
#include "train/metrics_log.h"
#include "train/precision_policy.h"
#include "train/progress.h"
#include "train/resume.h"
#include "train/run_report.h"
#include "train/session.h"
#include "train/signals.h"

namespace tandem {
namespace {

TrainerOptions trainer_options(const JobOptions& job, const StopSignals& signals) {
  return {.optimizer = job.optimizer,
          .schedule = job.schedule,
          .loss_scale = job.precision.loss_scale,
          .total_steps = job.train.total_steps(),
          .accumulate = job.train.accumulate,
          .clip_norm = job.train.clip_norm.value_or(0),
          .check_finite = job.precision.check_finite,
          .stop_requested = [&signals] { return signals.requested(); }};
}

// The job with what its normalisation takes from the training set, for evaluation and prediction too.
JobOptions with_training_numbers(const JobOptions& job) {
  JobOptions result = job;
  result.data = with_fingerprint(job.data);
  return result;
}

class JobRun {
 public:
  JobRun(const JobOptions& job, const RunRequest& request)
      : job_(with_training_numbers(job)),
        saved_job_(job_),
        request_(request),
        dataset_(std::make_shared<PatchDataset>(job_.data, job_.patch, job_.augment, request.dry_run)),
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
  void make_loader();
  void train();
  bool validates_now() const;
  bool is_validated() const;
  void check_validation_cases() const;
  void one_step();
  void attempt();
  void write_step(const StepReport& report);
  void move_to_fp32(const std::string& layer);
  void fall_back();
  [[noreturn]] void leave_for(const PrecisionOptions& precision);
  void note_scale(const StepReport& report);
  void validate();
  void note_validation(const SegmentationScores& scores, double seconds);
  void save();
  void save_or_retry_later();
  [[noreturn]] void stop();

  const JobOptions job_;
  JobOptions saved_job_;  // what the next checkpoint says: job_, or what the run goes on with
  const RunRequest& request_;
  StopSignals signals_;
  std::shared_ptr<PatchDataset> dataset_;
  ModelSession session_;
  Trainer trainer_;
  Progress progress_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<Loader> loader_;
  std::vector<RankedCheckpoint> best_;
  std::int64_t saved_step_ = -1;
  int failed_saves_ = 0;
  bool keep_all_ = false;
  StepTimes times_;
};

void JobRun::run(std::filesystem::path& folder) {
  if (request_.dry_run) return dry_run();
  check_validation_cases();
  folder_ = std::make_unique<RunFolder>(request_.folder);
  folder = folder_->path();
  folder_->checkpoint() ? resume(*folder_) : initialise_from(job_.model, trainer_);  // may fail
  JobOptions resolved = job_;
  folder_->describe(emit_yaml(fields(resolved)), environment_json(run_environment(job_, session_.context)));
  log_info("{}", start_report(job_, session_, trainer_, std::ssize(dataset_->cases())));
  log_info("run folder {}", folder_->path().string());
  if (step() > 0) log_info("resumed from step {} of {}", step(), total());
  metrics_ = std::make_unique<MetricsLog>(folder_->metrics_path());
  if (step() >= total() && is_validated()) {
    log_info("the run is complete at step {} of {}: raise train.iterations or train.epochs to go on", step(),
             total());
    return;
  }
  make_loader();
  train();
  progress_.clear();
  log_info("{}", end_report(trainer_, times_, loss_scale_history(folder_->path())));
}

// A wrong validation case must not wait for the first validation to be found.
void JobRun::check_validation_cases() const {
  if (job_.data.validation.empty()) return;
  for (const CaseEntry& entry : validation_cases(job_.data)) {
    const CaseInfo info = read_case_info(entry, job_.data.orientation);
    if (!info.has_labels)
      fail(ErrorKind::kData, "[data] {}: got a case without labels, expected one to validate on",
           entry.file());
    if (info.channels != dataset_->channels())
      fail(ErrorKind::kData, "[data] {}: got {} channel(s), expected {} as in the training cases",
           entry.file(), info.channels, dataset_->channels());
  }
}

void JobRun::dry_run() {
  log_info("{}", start_report(job_, session_, trainer_, std::ssize(dataset_->cases())));
  check_validation_cases();
  initialise_from(job_.model, trainer_);
  make_loader();
  log_info("{}", dry_run_report(job_, request_, trainer_, trainer_.step(*loader_)));
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
  const LoaderOptions options{.batch_size = job_.train.batch_size,
                              .seed = static_cast<std::uint64_t>(job_.seed),
                              .first_batch = step() * job_.train.accumulate,
                              .workers = job_.data.workers,
                              .prefetch = job_.data.prefetch,
                              .stop_requested = [this] { return signals_.requested(); }};
  loader_ = std::make_unique<Loader>(dataset_, options);
}

void JobRun::train() {
  if (!is_validated()) validate();
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

// Whether the present step's validation, if any, is in metrics.jsonl: a stop may have come in between.
bool JobRun::is_validated() const {
  if (step() == 0 || job_.data.validation.empty() || !validates_now()) return true;
  std::ifstream file(folder_->metrics_path());
  for (std::string line; std::getline(file, line);) {
    const auto members = parse_json_object(line);
    if (members && members->contains("step") && members->at("step") == std::to_string(step()) &&
        members->at("kind") == "val")
      return true;
  }
  return false;
}

void JobRun::one_step() {
  attempt();
  const StepReport& report = trainer_.last_report();
  times_.add(report);
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
    throw Error(error.kind(), error.text(),
                error.hint() + fmt::format("\nThe state before it is kept in {}.", folder_->path().string()));
  }
}

void JobRun::write_step(const StepReport& report) {
  metrics_->write(StepMetrics{.step = report.step,
                              .epoch = (report.step - 1) / job_.train.iterations_per_epoch,
                              .loss = report.loss + loss_offset(job_.loss),
                              .lr = report.lr,
                              .scale = report.scale,
                              .event = report.event,
                              .grad_norm = report.grad_norm,
                              .step_ms = report.step_ms,
                              .data_wait_ms = report.data_wait_ms,
                              .cause = report.cause ? &*report.cause : nullptr});
}

// Goes on with the layer of `parameter` in FP32; returns if that layer computes in FP32 already.
void JobRun::move_to_fp32(const std::string& parameter) {
  const ParamSegment* segment = trainer_.params().find(parameter);
  if (segment == nullptr || segment->region != ParamRegion::kCast) return;
  const std::string layer = parameter.substr(0, parameter.rfind('.'));
  metrics_->write_event(step(), "precision", layer + " computes in FP32 from here on");
  log_warning("step {}: layer {} computes in FP32 from here on", step(), layer);
  leave_for(with_fp32_layer(job_.precision, layer));
}

// at_floor: fallback_*.
void JobRun::fall_back() {
  const PrecisionOptions next = fallen_back(job_.precision);
  const char* name = next.compute == ComputeChoice::kBf16 ? "BF16" : "FP32";
  metrics_->write_event(step(), "precision", fmt::format("the job computes in {} from here on", name));
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
  metrics_->write_event(report.step, "loss_scale", fmt::format("{} -> {} ({})", report.scale, now, cause));
}

void JobRun::validate() {
  if (job_.data.validation.empty()) return;
  const auto start = std::chrono::steady_clock::now();
  const PatchModel model =
      patch_model(session_.context, *session_.model, [this] { return signals_.requested(); });
  try {
    const EvaluationRequest request{.window = window_options(job_.validate, job_.patch, job_.augment),
                                    .metrics = metric_options(job_.validate)};
    const SegmentationScores scores = evaluate_cases(job_.data, validation_cases(job_.data), request, model);
    note_validation(scores, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kStopped) stop();
    if (error.kind() != ErrorKind::kNumeric) throw;
    progress_.clear();
    log_warning("step {}: validation: {}", step(), error.what());
  }
}

void JobRun::note_validation(const SegmentationScores& scores, double seconds) {
  const double mean_dice = scores.mean_dice();
  ValidationMetrics line{.step = step(), .epoch = epoch(), .mean_dice = mean_dice, .seconds = seconds};
  for (std::size_t c = 1; c < scores.names().size(); ++c)
    line.dice.emplace_back(scores.names()[c], scores.summary(static_cast<std::int64_t>(c)).dice);
  for (const MetricRow& row : chosen_metrics(job_.validate.metrics))
    if (row.name != "dice") line.means.emplace_back(row.name, scores.mean(row.value));
  metrics_->write(line);
  progress_.clear();
  log_info("step {}: validation mean Dice {:.4f} ({:.1f} s)", step(), mean_dice, seconds);
  if (job_.select.metric == "dice" &&
      rank_checkpoint(best_, {step(), mean_dice}, true, job_.checkpoint.keep_best)) {
    saved_step_ = -1;  // saved again if need be: the checkpoint holds the list of the best
    save();
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
}

void JobRun::stop() {
  progress_.clear();
  save();
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
  expect_memory_for(job);
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

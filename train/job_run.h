// The life of one training run, as run_training goes through it: it owns everything in the order of its
// making. job_run.cpp: start, loop, validation, checkpoints, end; job_run_step.cpp: one step and what it
// leads to.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/patch_dataset.h"
#include "train/criterion.h"
#include "train/precision_policy.h"
#include "train/progress.h"
#include "train/run.h"
#include "train/run_folder.h"
#include "train/run_log.h"
#include "train/run_report.h"
#include "train/run_usage.h"
#include "train/selection.h"
#include "train/session.h"
#include "train/signals.h"
#include "train/validation_recorder.h"

namespace tandem {

class JobRun {
 public:
  JobRun(const JobOptions& job, const RunRequest& request)
      : job_(with_training_numbers(job, is_stopped())),
        saved_job_(job_),
        request_(request),
        dataset_(std::make_shared<PatchDataset>(job_.data, job_.patch, job_.augment, request.dry_run,
                                                is_stopped())),
        session_(make_session(job, dataset_->channels())),
        trainer_(session_.context, session_.precision, *session_.model, make_criterion(job_, *dataset_),
                 trainer_options(job_, is_stopped())),
        selection_(job_),
        progress_({.enabled = request.progress && !request.dry_run}) {}

  // `folder` is told as soon as it is known.
  void run(std::filesystem::path& folder);

 private:
  StopRequested is_stopped() const {
    return [this] { return signals_.requested(); };
  }
  std::int64_t step() const { return trainer_.state().attempted; }
  std::int64_t total() const { return job_.train.total_steps(); }
  std::int64_t epoch() const { return step() / job_.train.iterations_per_epoch; }

  void dry_run();
  void resume(const RunFolder& folder);
  void open_log();
  void make_loader();
  void train();
  bool validates_now() const;
  bool ends_early() const;
  void finish_early();
  void one_step();
  void attempt();
  void write_step(const StepReport& report);
  void move_to_fp32(const std::string& layer);
  void fall_back();
  [[noreturn]] void leave_for(const PrecisionOptions& precision);
  void note_scale(const StepReport& report);
  void note_usage();
  void validate();
  void note_validation(const SegmentationScores& scores, double seconds);
  void report(const ValidationRecorder* validation = nullptr);
  void save();
  void save_or_retry_later();
  [[noreturn]] void stop();

  StopSignals signals_;  // first: reading the cases may take long
  const JobOptions job_;
  JobOptions saved_job_;  // what the next checkpoint says: job_, or what the run goes on with
  const RunRequest& request_;
  std::vector<CaseEntry> validation_;
  std::shared_ptr<PatchDataset> dataset_;
  std::shared_ptr<const Dataset> samples_;  // what is trained on: dataset_, or fixed patches of it
  ModelSession session_;
  Trainer trainer_;
  Selection selection_;
  Progress progress_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<RunLog> metrics_;
  std::unique_ptr<Loader> loader_;
  std::int64_t saved_step_ = -1;
  int failed_saves_ = 0;
  bool keep_all_ = false;
  StepTimes times_;
  RunUsage usage_;
  std::int64_t validated_step_ = -1;  // the last step whose validation is in metrics.jsonl
};

}  // namespace tandem

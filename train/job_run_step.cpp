// One step of a training run: what it writes, and how the run goes on after one that cannot be applied.
#include "core/base/error.h"
#include "core/base/log.h"
#include "train/job_run.h"

namespace tandem {

void JobRun::one_step() {
  attempt();
  const StepReport& report = trainer_.last_report();
  times_.add(report);
  usage_.add(report);
  note_scale(report);
  if (report.step % job_.log.every == 0 || report.event != StepEvent::kGood || report.step == 1 ||
      report.step == total())
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
    if (gave_up && job_.precision.on_repeat_overflow == "demote" && report.cause && report.cause->fp32_cures)
      move_to_fp32(report.cause->layer + ".weight");
    if (outgrown) throw;
    keep_all_ = true;  // what went wrong may have begun before: earlier checkpoints stay
    save();
    throw Error(error.kind(), error.text(),
                error.hint() + fmt::format("\nThe state before it is kept in {}.", folder_->path().string()));
  }
}

void JobRun::write_step(const StepReport& report) {
  StepMetrics line = step_metrics(report, loss_offset(job_.loss));
  line.epoch = (report.step - 1) / job_.train.iterations_per_epoch;
  metrics_->write(line);
}

// Goes on with the layer of `parameter` in FP32; returns if it computes in FP32 already.
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
  const std::string_view good_cause = now > report.scale ? "growth" : "headroom";
  const std::string_view cause = report.event == StepEvent::kGood ? good_cause : event_name(report.event);
  metrics_->write(
      EventMetrics{report.step, "loss_scale", fmt::format("{} -> {} ({})", report.scale, now, cause)});
}

}  // namespace tandem

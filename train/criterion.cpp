// The table of losses that a job can name.
#include "train/criterion.h"

#include "core/ops/loss.h"
#include "data/fingerprint.h"
#include "data/label_map.h"

namespace tandem {

Criterion make_criterion(const LossOptions& options) {
  const DiceOptions dice{.batch = options.dice.batch,
                         .background = options.dice.background,
                         .smooth = options.dice.smooth,
                         .ignore_label = kIgnoredLabel};
  const DiceCeOptions both{.dice = dice,
                           .dice_weight = options.name == "ce" ? 0 : options.dice.weight,
                           .ce_weight = options.name == "dice" ? 0 : options.ce.weight,
                           .label_smoothing = options.ce.label_smoothing};
  return [both](const Outputs& outputs, const Var& label) { return dice_ce(outputs.main, label, both); };
}

double loss_offset(const LossOptions& options) { return options.name == "ce" ? 0 : options.dice.weight; }

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

JobOptions with_training_numbers(const JobOptions& job) {
  JobOptions result = job;
  result.data = with_fingerprint(job.data);
  return result;
}

}  // namespace tandem

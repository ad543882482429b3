// From the job's `loss` to the function that the trainer minimises. The losses themselves are core/ops/loss.
#pragma once

#include "train/job.h"
#include "train/trainer.h"

namespace tandem {

// dice_ce, dice or ce on the main output (medical.md 2.2: -mean Dice, so the sum may be negative).
Criterion make_criterion(const LossOptions& options);
// What has to be added to the criterion's value so that 0 is perfect: the weight of the Dice term.
double loss_offset(const LossOptions& options);

}  // namespace tandem

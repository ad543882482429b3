// From the job to what the trainer needs: the function that it minimises, and its options. The losses
// themselves are core/ops/loss.
#pragma once

#include "train/job.h"
#include "train/signals.h"
#include "train/trainer.h"

namespace tandem {

// dice_ce, dice or ce on the main output (medical.md 2.2: -mean Dice, so the sum may be negative).
Criterion make_criterion(const LossOptions& options);
// What has to be added to the criterion's value so that 0 is perfect: the weight of the Dice term.
double loss_offset(const LossOptions& options);

// The job's part of the trainer's options.
TrainerOptions trainer_options(const JobOptions& job, const StopSignals& signals);

// The job with what its normalisation takes from the training set: so it stands in the run folder, where
// evaluation and prediction find it.
JobOptions with_training_numbers(const JobOptions& job);

}  // namespace tandem

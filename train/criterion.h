// From the job's `loss` to the function that the trainer minimises. The losses themselves are core/ops/loss
// and core/ops/regression_loss; the keys are train/loss_options.
#pragma once

#include "data/patch_dataset.h"
#include "train/job.h"
#include "train/trainer.h"

namespace tandem {

// The loss of the job on the main output, plus the coarser outputs' where the model gives them, weighted by
// deep_supervision_weights, with labels and weights brought to their size by nearest_voxels. Overlap terms
// are -mean (medical.md 2.2), so the sum may be negative. Error{kConfig} for weights that are not one per
// class, or a loss that knows no ignored label.
Criterion make_criterion(const LossOptions& options, std::int64_t classes,
                         std::optional<std::int32_t> ignore_label = {});
// The same of a job, with kUnlabelled as the ignored label; class weights that a rule makes of the data are
// logged. Error{kConfig} for mse, l1 and smooth_l1 where the data have weights per voxel.
Criterion make_criterion(const JobOptions& job, const PatchDataset& data);
// Voxels per class in the training data; the background holds all that no other class names, without the
// ignored ones (`ignores`: data.ignore_label is set).
std::vector<std::int64_t> count_classes(const PatchDataset& data, std::int64_t classes, bool ignores = false);
// What has to be added to the criterion's value so that 0 is perfect: the weight of the overlap term.
double loss_offset(const LossOptions& options);

// Of n outputs, finest first: 2^-i, the coarsest 0, divided by their sum; one output has 1 (nnU-Net's).
std::vector<double> deep_supervision_weights(std::size_t n);

}  // namespace tandem

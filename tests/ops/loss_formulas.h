// The segmentation losses and the errors of two tensors over values in logical order, written from
// SegmentationLossArgs' text and PyTorch's documentation. Shares no code with the backends.
#pragma once

#include "core/ops/loss.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {

// labels: one per voxel, or one per element of the logits (args.multi_label), in logical order; weights: one
// per voxel, or empty.
double segmentation_loss_formula(const Shape& shape, const Values& logits, const Values& labels,
                                 const SegmentationLossArgs& args, const Values& weights = {});

}  // namespace tandem::testing

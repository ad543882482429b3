// Softmax and the segmentation and classification losses built on it. Logits of any float dtype, everything
// inside in FP32, the loss an F32 scalar of shape [1]. A label outside 0..C-1 that is not the ignored one
// makes the loss NaN; logits without a voxel are an Error{kShape}.
#pragma once

#include <cstdint>
#include <optional>

#include "core/autograd/tape.h"

namespace tandem {

// exp(x - max) / sum over channels. x [N,C,...] -> same shape and dtype.
Var softmax(const Var& x);
// Its logarithm, x - max - log sum exp(x - max). x [N,C,...] -> same shape, F32 (F64).
Var log_softmax(const Var& x);

struct CrossEntropyOptions {
  std::optional<std::int32_t> ignore_label;
  double label_smoothing = 0;
};

// Mean of -log softmax(logits)[label] over the voxels with a valid label; 0 without any.
// logits [N,C,spatial] or [N,C], labels I32 [N,1,spatial]; [N] and [N,L] will do for [N,C] and [N,C,L].
Var cross_entropy(const Var& logits, const Var& labels, const CrossEntropyOptions& options = {});

struct DiceOptions {
  bool batch = true;        // one Dice per class over the batch, else per sample and class
  bool background = false;  // count class 0 too
  bool squared = false;     // sum of squares of the prediction in the denominator
  double smooth = 1e-5;
  std::optional<std::int32_t> ignore_label;
};

// -mean D, D = (2 sum(p g) + smooth) / max(sum(p) + sum(g) + smooth, 1e-8), p = softmax(logits); in [-1, 0]
// as nnU-Net's.
Var soft_dice(const Var& logits, const Var& labels, const DiceOptions& options = {});

struct DiceCeOptions {
  DiceOptions dice;
  double dice_weight = 1, ce_weight = 1;
  double label_smoothing = 0;
};

// ce_weight * cross_entropy + dice_weight * soft_dice in one pass over the logits.
Var dice_ce(const Var& logits, const Var& labels, const DiceCeOptions& options = {});

}  // namespace tandem

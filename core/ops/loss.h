// Softmax and the segmentation and classification losses. Logits of any float dtype, everything inside in
// FP32, the loss an F32 scalar of shape [1]. Losses between two float tensors are in regression_loss.h.
//
// logits [N,C,spatial] or [N,C]; labels I32 class indices [N,1,spatial] ([N] and [N,L] will do for [N,C] and
// [N,C,L]). With the sigmoid activation, labels of the logits' own shape are independent 0 / 1 targets per
// channel, and logits of one channel take labels 0 and 1. A label that is neither valid nor the ignored one
// makes the loss NaN; logits without a voxel are an Error{kShape}, as are options out of range.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/autograd/tape.h"

namespace tandem {

// exp(x - max) / sum over channels. x [N,C,...] -> same shape and dtype.
Var softmax(const Var& x);
// Its logarithm, x - max - log sum exp(x - max). x [N,C,...] -> same shape, F32 (F64).
Var log_softmax(const Var& x);

// ce_weight * pointwise + dice_weight * (-mean overlap) in one pass over the logits: every loss below is a
// case of it, and so are dice_bce, dice_focal and their like. Formulas: SegmentationLossArgs
// (core/backends/kernel_args.h), but multi_label, which follows from the labels' shape.
// voxel_weights: F32 of the labels' shape with one channel, finite and >= 0 (not checked); undefined: all 1.
Var segmentation_loss(const Var& logits, const Var& labels, const SegmentationLossArgs& args,
                      const Tensor& voxel_weights = {});

struct CrossEntropyOptions {
  std::optional<std::int32_t> ignore_label;
  double label_smoothing = 0;
  std::vector<double> class_weights;  // one per class; empty: all 1
};

// Mean of -log softmax(logits)[label] over the voxels with a valid label, weighted by w[label] / sum of
// w[label]; 0 without any. (PyTorch's cross_entropy, label smoothing included.)
Var cross_entropy(const Var& logits, const Var& labels, const CrossEntropyOptions& options = {});

struct BceOptions {
  std::optional<std::int32_t> ignore_label;
  std::vector<double> pos_weight;  // weight of target 1, one per channel; empty: all 1
};

// Mean of max(z, 0) - z y + log(1 + exp(-|z|)) over voxels and channels (with pos_weight on y = 1); 0 without
// a valid one. (PyTorch's binary_cross_entropy_with_logits.)
Var bce_with_logits(const Var& logits, const Var& labels, const BceOptions& options = {});

struct FocalOptions {
  LossActivation activation = LossActivation::kSoftmax;
  double gamma = 2;
  std::optional<double> alpha;        // sigmoid: weight of target 1, 1 - alpha of target 0; absent: both 1
  std::vector<double> class_weights;  // softmax, as cross_entropy's
  std::optional<std::int32_t> ignore_label;
};

// Cross entropy (softmax) or BCE (sigmoid) with each term multiplied by (1 - probability of its target)^gamma
// (Lin et al. 2017); gamma = 0 is the loss itself. Logarithms are never taken of a rounded probability.
Var focal_loss(const Var& logits, const Var& labels, const FocalOptions& options = {});

struct DiceOptions {
  bool batch = true;        // one Dice per class over the batch, else per sample and class
  bool background = false;  // count class 0 too
  bool squared = false;     // sum of squares of the prediction in the denominator
  double smooth = 1e-5;
  std::optional<std::int32_t> ignore_label;
  LossActivation activation = LossActivation::kSoftmax;
};

// -mean D, D = (2 sum(p g) + smooth) / max(sum(p) + sum(g) + smooth, 1e-8), p = activation(logits); in
// [-1, 0] as nnU-Net's. (pytorch-3dunet's Dice: squared, smooth 0.)
Var soft_dice(const Var& logits, const Var& labels, const DiceOptions& options = {});

// -(2 sum_c w_c I_c + smooth) / max(sum_c w_c (P_c + G_c) + smooth, 1e-8) with w_c = 1 / G_c^2, a constant
// (Sudre et al. 2017). An absent class has the largest weight of the present ones.
Var generalized_dice(const Var& logits, const Var& labels, const DiceOptions& options = {});

struct TverskyOptions {
  DiceOptions dice;
  double alpha = 0.3, beta = 0.7;  // weights of false positives and of false negatives
};

// -mean (I + s) / max(I + alpha (P - I) + beta (G - I) + s, 1e-8) (Salehi et al. 2017).
Var tversky(const Var& logits, const Var& labels, const TverskyOptions& options = {});

struct DiceCeOptions {
  DiceOptions dice;
  double dice_weight = 1, ce_weight = 1;
  double label_smoothing = 0;
};

// ce_weight * cross_entropy + dice_weight * soft_dice in one pass over the logits.
Var dice_ce(const Var& logits, const Var& labels, const DiceCeOptions& options = {});

}  // namespace tandem

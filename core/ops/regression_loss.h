// Losses between two float tensors: mean squared, absolute and smooth absolute error. Differences and sums in
// FP32, the loss an F32 scalar of shape [1]. Losses on class labels are in loss.h.
//
// x and target: same shape and dtype, any float dtype, at least one element (Error{kShape} else); the
// gradient flows to both.
#pragma once

#include "core/autograd/tape.h"

namespace tandem {

// Mean of (x - target)^2.
Var mse_loss(const Var& x, const Var& target);
// Mean of |x - target|; its gradient is 0 where they are equal.
Var l1_loss(const Var& x, const Var& target);
// Mean of d^2 / (2 beta) where d = |x - target| < beta, else d - beta / 2; beta > 0. (PyTorch's
// smooth_l1_loss.)
Var smooth_l1_loss(const Var& x, const Var& target, double beta = 1);

}  // namespace tandem

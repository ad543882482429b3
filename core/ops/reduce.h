// Sum and mean of all elements of a tensor. Sums over one axis are other ops' subject: global pooling
// (pool.h), the losses.
#pragma once

#include "core/autograd/tape.h"

namespace tandem {

// Any shape and float dtype -> [1] F32 (F64), accumulated in FP32 inside short blocks and in FP64 between
// them. The gradient is dy (mean: dy / count) at every element, rounded once to x's dtype.
Var sum(const Var& x);
Var mean(const Var& x);  // at least one element: Error{kShape} else

}  // namespace tandem

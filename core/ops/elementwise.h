// Elementwise ops: activation, sum, product, bias, cast. Computed in FP32, stored in the inputs' dtype.
// Shapes and dtypes that differ are an Error{kShape}.
#pragma once

#include "core/autograd/tape.h"

namespace tandem {

Var relu(const Var& x);                             // max(x, 0)
Var leaky_relu(const Var& x, double slope = 0.01);  // x where x >= 0, else slope x; slope >= 0
Var add(const Var& x, const Var& y);                // x + y, same shape and dtype
Var mul(const Var& x, const Var& y);                // x y, same shape and dtype
Var bias(const Var& x, const Var& b);               // x + b per channel; b F32 [C]
Var cast(const Var& x, DType dtype);                // round to nearest even; the gradient is cast back

}  // namespace tandem

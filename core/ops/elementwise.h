// Elementwise ops: activations, sum, product, bias, cast. Computed in FP32, stored in the inputs' dtype.
// Shapes and dtypes that differ are an Error{kShape}.
#pragma once

#include "core/autograd/tape.h"

namespace tandem {

Var relu(const Var& x);                             // max(x, 0)
Var leaky_relu(const Var& x, double slope = 0.01);  // x where x >= 0, else slope x; slope >= 0
Var prelu(const Var& x, const Var& a);              // x where x >= 0, else a x; a F32 [C] or [1], learned
Var elu(const Var& x, double alpha = 1);            // x where x > 0, else alpha (e^x - 1); alpha > 0
Var gelu(const Var& x);                             // x Phi(x) = x (1 + erf(x / sqrt 2)) / 2
Var gelu_tanh(const Var& x);                        // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
Var silu(const Var& x);                             // x / (1 + e^-x)
Var sigmoid(const Var& x);                          // 1 / (1 + e^-x)
Var tanh(const Var& x);
Var softplus(const Var& x);            // log(1 + e^x)
Var add(const Var& x, const Var& y);   // x + y, same shape and dtype
Var mul(const Var& x, const Var& y);   // x y, same shape and dtype
Var bias(const Var& x, const Var& b);  // x + b per channel; b F32 [C]
Var cast(const Var& x, DType dtype);   // round to nearest even; the gradient is cast back

}  // namespace tandem

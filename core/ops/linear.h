// Matrix products with gradients. 16-bit or F32 operands of one dtype, FP32 accumulation.
#pragma once

#include "core/autograd/tape.h"

namespace tandem {

// y = a b: a [M,K], b [K,N] -> [M,N]. An empty K gives zeros.
Var matmul(const Var& a, const Var& b);
// y = x w^T + bias: x [N,I], w [O,I], bias F32 [O] or undefined -> [N,O], rounded once; weight and bias
// gradients FP32.
Var linear(const Var& x, const Var& w, const Var& bias);

}  // namespace tandem

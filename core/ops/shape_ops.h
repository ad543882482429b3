// Ops that move values without changing them.
#pragma once

#include <span>

#include "core/autograd/tape.h"

namespace tandem {

// Joins along channels: [N,C1,spatial], [N,C2,spatial], ... -> [N,C1+C2+...,spatial]; at least one input, one
// dtype.
Var concat(std::span<const Var> inputs);
// Same values in logical (row-major N,C,D,H,W) order under another shape of as many elements; one size may be
// -1.
Var reshape(const Var& x, std::span<const std::int64_t> sizes);
// [N, ...] -> [N, product of the rest], logical order (PyTorch's flatten(1)).
Var flatten(const Var& x);

}  // namespace tandem

// Ops that cut, pad and permute axes; values keep their bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/autograd/tape.h"

namespace tandem {

// Triples are depth, height, width; leading ones are not read for fewer dimensions.
// The voxels [begin, begin + size) of each axis. x [N,C,in] -> [N,C,size]
Var crop(const Var& x, const std::array<std::int64_t, 3>& begin, const std::array<std::int64_t, 3>& size);
// Zeros around. x [N,C,in] -> [N,C,before + in + after]
Var pad(const Var& x, const std::array<std::int64_t, 3>& before, const std::array<std::int64_t, 3>& after);
// Axis i of the result is axis order[i] of x, in the logical order N, C, D, H, W (PyTorch's permute).
Var transpose(const Var& x, std::span<const int> order);

}  // namespace tandem

// Resize of the spatial axes, by nearest neighbour or linear interpolation.
#pragma once

#include <array>
#include <cstdint>

#include "core/autograd/tape.h"

namespace tandem {

// Sizes in and out along an axis, s = in / out in FP32 (PyTorch's interpolate with size=, align_corners =
// False):
enum class ResizeMode : std::uint8_t {
  kNearest,       // input floor(s o): PyTorch's "nearest"
  kNearestExact,  // input floor(s (o + 1/2)): half-pixel, "nearest-exact"
  kLinear,        // between the neighbours of s (o + 1/2) - 1/2, clamped: "linear", "bilinear", "trilinear"
};

// x [N,C,in] -> [N,C,size]; size is depth, height, width, leading ones not read for fewer dimensions. FP32
// sums, one rounding; the gradient is the transposed map.
Var resize(const Var& x, const std::array<std::int64_t, 3>& size, ResizeMode mode = ResizeMode::kLinear);

}  // namespace tandem

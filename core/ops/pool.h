// Max and average pooling in one to three dimensions, over windows or over the whole volume.
#pragma once

#include <array>
#include <optional>

#include "core/autograd/tape.h"

namespace tandem {

// Triples are depth, height, width; leading ones are not read for fewer dimensions. stride: the window where
// absent.
struct PoolOptions {
  std::array<std::int64_t, 3> window{2, 2, 2};
  std::optional<std::array<std::int64_t, 3>> stride;
  std::array<std::int64_t, 3> padding{0, 0, 0};  // at most half the window
  bool count_padding = true;  // average: divide by the window's volume, else by the voxels inside
};

// x [N,C,in] -> [N,C,out], out = floor((in + 2 padding - window) / stride) + 1. NaN wins; padding never does.
Var max_pool(const Var& x, const PoolOptions& options);
// Accumulated in FP32.
Var avg_pool(const Var& x, const PoolOptions& options);

// Over all voxels. x [N,C,spatial] -> [N,C]. Average: accumulated in FP32 inside short blocks and in FP64
// between them. Max: NaN wins.
Var global_avg_pool(const Var& x);
Var global_max_pool(const Var& x);

}  // namespace tandem

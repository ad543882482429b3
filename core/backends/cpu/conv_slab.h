// A convolution cut into pieces of bounded workspace: whole samples, or slabs along the outermost axis of one
// sample, each a smaller convolution on neighbouring voxels. Index arithmetic only.
#pragma once

#include <vector>

#include "core/backends/cpu/conv_gather.h"
#include "core/backends/kernel_args.h"

namespace tandem {

struct ConvSlab {
  ConvGeometry geometry;
  IndexRange x, y;  // voxels of the whole tensors
};

// Bytes that one voxel of x and of y cost in the workspace.
struct SlabCost {
  std::int64_t x_voxel = 0, y_voxel = 0, limit = 0;
};

// Slabs that each compute their own part of y (for the weight gradient: of the sum). One slab needs at most
// cost.limit bytes unless a single row of outputs needs more.
std::vector<ConvSlab> output_slabs(const ConvGeometry& g, const SlabCost& cost);
// Slabs that each compute their own part of x from the y voxels that reach it.
std::vector<ConvSlab> input_slabs(const ConvGeometry& g, const SlabCost& cost);

}  // namespace tandem

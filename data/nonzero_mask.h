// Which voxels of a case are not background of the scanner: box and mask of what is not 0. What is cut and
// normalised by them is data/prepare_volume.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/voxel_source.h"

namespace tandem {

struct VoxelBox {
  Index3 begin{}, size{};
};

// The box of voxels with a value other than 0 in any channel; nothing where there is none. Reads the whole
// case slice by slice; Error{kData} naming the first voxel that is not finite.
std::optional<VoxelBox> nonzero_box(const VoxelSource& source);

// planes [C, size z, y, x] -> [size]: 1 for voxels with a value other than 0 in any channel and for the holes
// between them, which are not connected to the box's faces by the six neighbours (nnU-Net's
// create_nonzero_mask; scipy's binary_fill_holes); else 0.
std::vector<std::uint8_t> nonzero_mask(std::span<const float> planes, const Index3& size);

}  // namespace tandem

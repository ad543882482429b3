// Exact Euclidean distance transform of a mask on voxels of any spacing. Surfaces and what is made of their
// distances are data/surface_distance.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/volume.h"

namespace tandem {

// For every voxel centre of [Z, Y, X]: the squared distance in mm^2 to the nearest voxel centre where
// `features` is not 0; infinity if there is none. Exact up to FP64 rounding: lower envelopes of parabolas,
// one axis after the other (Felzenszwalb and Huttenlocher, Theory of Computing 8, 2012).
std::vector<double> squared_distances_mm2(std::span<const std::uint8_t> features, const Index3& shape,
                                          const std::array<double, 3>& spacing_mm);

}  // namespace tandem

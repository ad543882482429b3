// Training patches on a regular grid, and which of them stay. Random patches are data/patch_sampler.
#pragma once

#include <cstdint>
#include <vector>

#include "data/options.h"
#include "data/prepared_case.h"

namespace tandem {

// First voxels of patches of length `patch` along an axis of length `size`: 0, stride, 2 stride, ... while
// they fit, then one pulled back to the end if voxels are left (pytorch-3dunet's SliceBuilder). An axis
// shorter than the patch: one patch with the axis in its middle (a negative start).
std::vector<std::int64_t> grid_starts(std::int64_t size, std::int64_t patch, std::int64_t stride);

// First voxels of the patches of a case, in order z, y, x: all of the grid of options.stride, or with
// options.min_foreground those whose foreground voxels are more than that part of the patch, and of the
// others each with the probability options.slack (pytorch-3dunet's FilterSliceBuilder: ignored voxels are no
// foreground). Chance depends on `case_number` and the patch alone, so that all runs have the same patches.
std::vector<Index3> grid_patches(const PreparedCase& source, const PatchOptions& options,
                                 std::int64_t case_number);

}  // namespace tandem

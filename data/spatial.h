// Rotation, scaling and elastic shifts of a training patch in one resampling pass. Changes of intensity and
// mirroring are data/augment.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "data/augment.h"

namespace tandem {

// Where the voxels of a patch read: voxel p (z, y, x) at centre + matrix (p - centre) + shift(p).
struct SpatialMap {
  Index3 size{};                                            // of the patch
  std::array<double, 9> matrix{1, 0, 0, 0, 1, 0, 0, 0, 1};  // row major, z y x
  // Shifts (z, y, x; voxels) of control points [grid z, y, x, 3] whose first and last lie on the patch's
  // corners; linear in between. Empty: none.
  Index3 grid{};
  std::vector<float> shifts;
};

// nnU-Net's rule for anisotropic patches: the largest edge is more than 3 times the z edge. Such a patch is
// turned and scaled within its slices only.
bool is_flat_patch(const Index3& size);

// What `draw` gives, or nothing. Rotation about each axis by up to options.rotate_deg, one factor of
// options.scale for all axes (above 1: a larger field of view), each with its own probability. A flat patch
// is turned about z and scaled within its slices only. Elastic: normal shifts of options.elastic[0] voxels at
// points options.elastic[1] voxels apart.
std::optional<SpatialMap> draw_spatial(const AugmentOptions& options, const Index3& size, const Draw& draw);

// The voxels that the map reads, relative to the patch's first voxel.
struct SpatialBox {
  Index3 begin{}, size{};
};
SpatialBox spatial_box(const SpatialMap& map);

// Fills `patch` from `source`, which holds the voxels of `box`: image linearly, label by the class with the
// largest sum of linear weights (the lowest of equal ones), weight from the nearest voxel.
void resample_patch(const SpatialMap& map, const SpatialBox& box, const PatchView& source,
                    const PatchView& patch);

}  // namespace tandem

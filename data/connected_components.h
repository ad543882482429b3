// Connected components of a label map, and the clean-up that keeps the largest one of a class.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/volume.h"

namespace tandem {

// Voxels of one class that touch by a face, an edge or a corner (26 neighbours) form a component.
struct Components {
  struct Component {
    std::int32_t cls = 0;
    std::int64_t voxels = 0;
  };
  std::vector<std::int32_t> ids;  // [Z, Y, X]: place in `all`, -1 for class 0
  std::vector<Component> all;     // in the order of their first voxels
};
Components connected_components(std::span<const std::int32_t> labels, const Index3& shape);

// Of each class of `classes` (not 0) only the largest component stays, of equal ones the first in z, y, x;
// the other voxels become class 0. Returns how many those are.
std::int64_t keep_largest_components(std::span<std::int32_t> labels, const Index3& shape,
                                     const std::vector<std::int32_t>& classes);

}  // namespace tandem

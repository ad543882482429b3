// Where the elements of the channels-last layout lie: the one place that walks logical and stored order
// together.
#pragma once

#include <cstdint>

#include "core/tensor/shape.h"

namespace tandem {

// Calls visit(logical index, stored index) for all elements of a tensor of `shape` whose rows are `pitch`
// elements apart, in logical order (N, C, D, H, W); the stored index counts from the first element.
template <class Visit>
void for_each_element(const Shape& shape, std::int64_t pitch, const Visit& visit) {
  const std::int64_t n = shape.batch(), c = shape.channels(),
                     s = shape.rank() > 2 ? shape.spatial_numel() : 1;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < c; ++j)
      for (std::int64_t k = 0; k < s; ++k) visit((i * c + j) * s + k, (i * s + k) * pitch + j);
}

}  // namespace tandem

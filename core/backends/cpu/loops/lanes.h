// Sums across the lanes of this level's vector, in a fixed order. Internal linkage throughout (see vec.h).
#pragma once

#include "core/backends/cpu/loops/vec.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

// Sum of the lanes, pairwise, in a fixed order.
inline float sum_lanes(Vec v) {
  float lane[kLanes];
  *reinterpret_cast<LooseVec*>(lane) = v;
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  return lane[0];
}

}  // namespace
}  // namespace tandem::TD_ISA_NAMESPACE

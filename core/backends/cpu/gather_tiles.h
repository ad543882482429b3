// How the outputs of a gather (conv_gather.h) are cut into tasks that fit in the caches.
#pragma once

#include <cstdint>

#include "core/backends/cpu/conv_gather.h"

namespace tandem {

// Outputs of one task per axis; the width counts outputs of a phase.
struct TileSizes {
  std::int64_t depth = 1, height = 1, width = 1;
};

// Fills the caches and leaves a few tasks per thread. Any choice gives the same bits.
TileSizes tile_sizes(const GatherPlan& plan, std::int64_t batch);

// Sources that `outputs` neighbours on an axis reach over.
std::int64_t source_reach(const GatherAxis& axis, std::int64_t outputs);
// Voxels of a padded source row for `outputs` outputs of a phase.
std::int64_t source_row_voxels(const GatherPlan& plan, std::int64_t outputs);

// Source voxels of the width that the outputs `width` of any phase take, those outside the volume included.
IndexRange width_sources(const GatherPlan& plan, const IndexRange& width);

inline std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace tandem

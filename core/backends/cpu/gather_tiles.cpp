// Sizes of tasks.
#include "core/backends/cpu/gather_tiles.h"

#include <algorithm>

#include "core/base/parallel.h"

namespace tandem {
namespace {

constexpr std::int64_t kRowFloats =
    6 * 1024;  // of one source row: a few rows fit in L1 beside the weights in use
constexpr std::int64_t kTileFloats = 56 * 1024;  // of the source rows of a tile: about half of a 512 KiB L2
constexpr std::int64_t kVoxelMultiple = 24;      // a multiple of every tile height

}  // namespace

std::int64_t source_reach(const GatherAxis& axis, std::int64_t outputs) {
  const std::int64_t span = (axis.taps - 1) * axis.dilation + 1;
  return axis.transposed ? (outputs + span - 2) / axis.stride + 1 : (outputs - 1) * axis.stride + span;
}

std::int64_t source_row_voxels(const GatherPlan& plan, std::int64_t outputs) {
  std::int64_t low = 0, high = 0;
  bool any = false;
  for (const WidthPhase& phase : plan.phases) {
    if (phase.bases.empty()) continue;
    low = any ? std::min(low, phase.bases.front()) : phase.bases.front();
    high = any ? std::max(high, phase.bases.back()) : phase.bases.back();
    any = true;
  }
  return high - low + (outputs - 1) * plan.source_step + 1;
}

TileSizes tile_sizes(const GatherPlan& plan, std::int64_t batch) {
  TileSizes tile;
  const std::int64_t width = plan.phase_outputs(plan.phases.front());
  const std::int64_t fitting =
      std::max(kVoxelMultiple, kRowFloats / (plan.source_channels * plan.source_step));
  const std::int64_t parts = ceil_divide(width, fitting);
  tile.width = parts == 1 ? width : ceil_divide(ceil_divide(width, parts), kVoxelMultiple) * kVoxelMultiple;
  const std::int64_t row = source_row_voxels(plan, tile.width) * plan.source_channels;
  const std::int64_t wanted_tasks = 4 * compute_threads();
  for (bool grown = true; grown;) {
    grown = false;
    for (const int axis : {1, 0}) {
      TileSizes next = tile;
      (axis == 0 ? next.depth : next.height) += 1;
      const auto& depth = plan.axes[0];
      const auto& height = plan.axes[1];
      const std::int64_t tasks = batch * ceil_divide(depth.outputs, next.depth) *
                                 ceil_divide(height.outputs, next.height) * ceil_divide(width, tile.width);
      const bool fits =
          source_reach(depth, next.depth) * source_reach(height, next.height) * row <= kTileFloats;
      const bool inside = next.depth <= depth.outputs && next.height <= height.outputs;
      if (!fits || !inside || tasks < wanted_tasks) continue;
      tile = next;
      grown = true;
    }
  }
  return tile;
}

IndexRange width_sources(const GatherPlan& plan, const IndexRange& width) {
  IndexRange range{0, 0};
  bool any = false;
  for (const WidthPhase& phase : plan.phases) {
    if (phase.bases.empty()) continue;
    const IndexRange part{phase.bases.front() + width.begin * plan.source_step,
                          phase.bases.back() + (width.end - 1) * plan.source_step + 1};
    range = any ? IndexRange{std::min(range.begin, part.begin), std::max(range.end, part.end)} : part;
    any = true;
  }
  return range;
}

}  // namespace tandem

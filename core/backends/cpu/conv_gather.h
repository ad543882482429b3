// How outputs of a convolution or of its transpose gather their sources, axis by axis: plain index
// arithmetic, shared by packing and computing. Knows nothing of memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/backends/kernel_args.h"

namespace tandem {

// Half-open.
struct IndexRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

// One axis. Convolution: source = output * stride - padding + tap * dilation. Transposed: source = (output +
// padding - tap * dilation) / stride where that divides.
struct GatherAxis {
  std::int64_t outputs = 1, sources = 1, taps = 1, stride = 1, dilation = 1, padding = 0;
  bool transposed = false;

  // -1 where there is none.
  std::int64_t source(std::int64_t output, std::int64_t tap) const {
    std::int64_t s = output * stride - padding + tap * dilation;
    if (transposed) {
      const std::int64_t q = output + padding - tap * dilation;
      if (q < 0 || q % stride != 0) return -1;
      s = q / stride;
    }
    return s >= 0 && s < sources ? s : -1;
  }
  // The smallest range that holds every source of `outputs`; empty where there is none.
  IndexRange sources_of(const IndexRange& outputs) const;
};

// Outputs first, first + step, ... of the width axis: they use the same taps. Output j takes tap i from
// source bases[i] + j * source_step, inside the volume or not.
struct WidthPhase {
  std::int64_t first = 0;
  std::vector<std::int64_t> taps, bases;  // ascending bases
  bool consecutive = false;               // bases rise by one: all taps are one run of memory
  std::int64_t taps_before = 0;           // taps of the earlier phases
};

struct GatherPlan {
  std::int64_t source_channels = 1, output_channels = 1;
  std::array<GatherAxis, 3> axes;
  std::vector<WidthPhase> phases;
  std::int64_t phase_step = 1, source_step = 1;

  std::int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
  // Outputs of `phase` along the width.
  std::int64_t phase_outputs(const WidthPhase& phase) const {
    return phase.first >= axes[2].outputs ? 0 : (axes[2].outputs - phase.first - 1) / phase_step + 1;
  }
};

GatherPlan gather_plan(const ConvGeometry& g, bool transposed);

}  // namespace tandem

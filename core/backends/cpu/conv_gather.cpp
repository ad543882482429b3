// Building of gather plans.
#include "core/backends/cpu/conv_gather.h"

#include <algorithm>

namespace tandem {
namespace {

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

WidthPhase width_phase(const GatherAxis& axis, std::int64_t first) {
  WidthPhase phase;
  phase.first = first;
  for (std::int64_t i = 0; i < axis.taps; ++i) {
    // Transposed, the bases fall as the taps rise: walk the taps backwards.
    const std::int64_t tap = axis.transposed ? axis.taps - 1 - i : i;
    const std::int64_t at =
        axis.transposed ? first + axis.padding - tap * axis.dilation : tap * axis.dilation - axis.padding;
    if (axis.transposed && floor_divide(at, axis.stride) * axis.stride != at) continue;
    phase.taps.push_back(tap);
    phase.bases.push_back(axis.transposed ? floor_divide(at, axis.stride) : at);
  }
  phase.consecutive = true;
  for (std::size_t i = 1; i < phase.bases.size(); ++i)
    phase.consecutive = phase.consecutive && phase.bases[i] == phase.bases[i - 1] + 1;
  return phase;
}

}  // namespace

IndexRange GatherAxis::sources_of(const IndexRange& range) const {
  IndexRange found{sources, 0};
  for (std::int64_t o = range.begin; o < range.end; ++o)
    for (std::int64_t t = 0; t < taps; ++t) {
      const std::int64_t s = source(o, t);
      if (s < 0) continue;
      found.begin = std::min(found.begin, s);
      found.end = std::max(found.end, s + 1);
    }
  return found.begin < found.end ? found : IndexRange{};
}

GatherPlan gather_plan(const ConvGeometry& g, bool transposed) {
  GatherPlan plan;
  plan.source_channels = transposed ? g.out_channels : g.in_channels;
  plan.output_channels = transposed ? g.in_channels : g.out_channels;
  for (std::size_t i = 0; i < 3; ++i)
    plan.axes[i] = {transposed ? g.in[i] : g.out[i],
                    transposed ? g.out[i] : g.in[i],
                    g.kernel[i],
                    g.stride[i],
                    g.dilation[i],
                    g.padding[i],
                    transposed};
  plan.phase_step = transposed ? g.stride[2] : 1;
  plan.source_step = transposed ? 1 : g.stride[2];
  std::int64_t taps_before = 0;
  for (std::int64_t first = 0; first < plan.phase_step; ++first) {
    plan.phases.push_back(width_phase(plan.axes[2], first));
    plan.phases.back().taps_before = taps_before;
    taps_before += static_cast<std::int64_t>(plan.phases.back().taps.size());
  }
  return plan;
}

}  // namespace tandem

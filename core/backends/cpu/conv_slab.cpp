// Borders and paddings of slabs.
#include "core/backends/cpu/conv_slab.h"

#include <algorithm>

namespace tandem {
namespace {

std::int64_t volume(const std::array<std::int64_t, 3>& size) { return size[0] * size[1] * size[2]; }

std::int64_t slab_bytes(const ConvGeometry& g, const SlabCost& cost) {
  return g.batch * (volume(g.in) * cost.x_voxel + volume(g.out) * cost.y_voxel);
}

// Samples [begin, end).
ConvSlab sample_slab(const ConvGeometry& g, const IndexRange& samples) {
  ConvSlab slab{g,
                {samples.begin * volume(g.in), samples.end * volume(g.in)},
                {samples.begin * volume(g.out), samples.end * volume(g.out)}};
  slab.geometry.batch = samples.size();
  return slab;
}

// Rows `in` and `out` of `axis` in sample n.
ConvSlab axis_slab(const ConvGeometry& g, std::size_t axis, std::int64_t n, const IndexRange& in,
                   const IndexRange& out) {
  ConvSlab slab{g, {}, {}};
  const std::int64_t x_row = volume(g.in) / g.in[axis], y_row = volume(g.out) / g.out[axis];
  slab.x = {n * volume(g.in) + in.begin * x_row, n * volume(g.in) + in.end * x_row};
  slab.y = {n * volume(g.out) + out.begin * y_row, n * volume(g.out) + out.end * y_row};
  slab.geometry.batch = 1;
  slab.geometry.in[axis] = in.size();
  slab.geometry.out[axis] = out.size();
  slab.geometry.padding[axis] = g.padding[axis] + in.begin - out.begin * g.stride[axis];
  return slab;
}

// Input rows that outputs [begin, end) read. At least one row, so that a slab in the padding stays a
// convolution.
IndexRange inputs_of(const ConvGeometry& g, std::size_t axis, const IndexRange& out) {
  const std::int64_t low = out.begin * g.stride[axis] - g.padding[axis];
  const std::int64_t high =
      (out.end - 1) * g.stride[axis] - g.padding[axis] + (g.kernel[axis] - 1) * g.dilation[axis] + 1;
  const std::int64_t begin = std::clamp<std::int64_t>(low, 0, g.in[axis] - 1);
  return {begin, std::clamp(high, begin + 1, g.in[axis])};
}

// Outputs that read any of the inputs [begin, end); `begin + padding` is a multiple of the stride, so that
// the slab's padding is not negative.
IndexRange outputs_of(const ConvGeometry& g, std::size_t axis, const IndexRange& in) {
  const std::int64_t stride = g.stride[axis], padding = g.padding[axis];
  const std::int64_t reach = (g.kernel[axis] - 1) * g.dilation[axis];
  const std::int64_t first = in.begin + padding - reach;
  const std::int64_t begin =
      std::clamp<std::int64_t>((std::max<std::int64_t>(first, 0) + stride - 1) / stride, 0, g.out[axis] - 1);
  return {begin, std::clamp((in.end - 1 + padding) / stride + 1, begin + 1, g.out[axis])};
}

// Whether every window touches the volume, which the borders above take for granted.
bool windows_touch(const ConvGeometry& g, std::size_t axis) {
  const std::int64_t reach = (g.kernel[axis] - 1) * g.dilation[axis];
  return g.padding[axis] <= reach && (g.out[axis] - 1) * g.stride[axis] - g.padding[axis] < g.in[axis];
}

template <class Cut>
std::vector<ConvSlab> slabs(const ConvGeometry& g, const SlabCost& cost, const Cut& cut) {
  std::vector<ConvSlab> result;
  const std::int64_t sample = std::max<std::int64_t>(1, slab_bytes(sample_slab(g, {0, 1}).geometry, cost));
  if (sample <= cost.limit || !windows_touch(g, static_cast<std::size_t>(3 - g.spatial_rank))) {
    const std::int64_t together = std::max<std::int64_t>(1, cost.limit / sample);
    for (std::int64_t n = 0; n < g.batch; n += together)
      result.push_back(sample_slab(g, {n, std::min(g.batch, n + together)}));
    return result;
  }
  for (std::int64_t n = 0; n < g.batch; ++n) cut(n, result);
  return result;
}

}  // namespace

std::vector<ConvSlab> output_slabs(const ConvGeometry& g, const SlabCost& cost) {
  const auto axis = static_cast<std::size_t>(3 - g.spatial_rank);
  return slabs(g, cost, [&](std::int64_t n, std::vector<ConvSlab>& result) {
    for (IndexRange out{0, 0}; out.begin < g.out[axis]; out.begin = out.end) {
      ConvSlab slab =
          axis_slab(g, axis, n, inputs_of(g, axis, {out.begin, out.begin + 1}), {out.begin, out.begin + 1});
      for (out.end = out.begin + 1; out.end < g.out[axis]; ++out.end) {
        const IndexRange longer{out.begin, out.end + 1};
        const ConvSlab next = axis_slab(g, axis, n, inputs_of(g, axis, longer), longer);
        if (slab_bytes(next.geometry, cost) > cost.limit) break;
        slab = next;
      }
      result.push_back(slab);
    }
  });
}

std::vector<ConvSlab> input_slabs(const ConvGeometry& g, const SlabCost& cost) {
  const auto axis = static_cast<std::size_t>(3 - g.spatial_rank);
  const std::int64_t stride = g.stride[axis];
  const auto next_border = [&](std::int64_t begin) {
    return std::min(g.in[axis], begin + stride - (begin + g.padding[axis]) % stride);
  };
  return slabs(g, cost, [&](std::int64_t n, std::vector<ConvSlab>& result) {
    for (IndexRange in{0, 0}; in.begin < g.in[axis]; in.begin = in.end) {
      in.end = next_border(in.begin);
      ConvSlab slab = axis_slab(g, axis, n, in, outputs_of(g, axis, in));
      while (in.end < g.in[axis]) {
        const IndexRange longer{in.begin, next_border(in.end)};
        const ConvSlab next = axis_slab(g, axis, n, longer, outputs_of(g, axis, longer));
        if (slab_bytes(next.geometry, cost) > cost.limit) break;
        slab = next;
        in.end = longer.end;
      }
      result.push_back(slab);
    }
  });
}

}  // namespace tandem

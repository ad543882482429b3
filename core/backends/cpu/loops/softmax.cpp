// Softmax over channels, its logarithm, and their gradients.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/lanes.h"
#include "core/backends/cpu/loops/planes.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

template <bool kLog>
void softmax_block(const SoftmaxLoop& loop, const PlaneBlock& block) {
  read_planes(loop, loop.x, block);
  const std::int64_t n = padded(block.count);
  float* planes = block.scratch.planes;
  alignas(64) float highest[kMaxBlockRows], sum[kMaxBlockRows];
  plane_maximum(loop, planes, n, highest);
  for (std::int64_t r = 0; r < n; ++r) sum[r] = 0;
  for (std::int64_t c = 0; c < loop.x.channels; ++c) {
    float* x = planes + c * loop.block_rows;
    for (std::int64_t r = 0; r < n; ++r) {
      const float d = x[r] - highest[r], e = kernels::exp(d);
      x[r] = kLog ? d : e;
      sum[r] += e;
    }
  }
  if constexpr (kLog)
    for (std::int64_t r = 0; r < n; ++r) sum[r] = kernels::log(sum[r]);
  for (std::int64_t c = 0; c < loop.x.channels; ++c) {
    float* x = planes + c * loop.block_rows;
    for (std::int64_t r = 0; r < n; ++r) x[r] = kLog ? x[r] - sum[r] : x[r] / sum[r];
  }
  write_planes(loop, loop.y, block);
}

// Row by row: the sum needs all of dy and y, which lie densely in the two halves of the scratch.
template <bool kLog>
void softmax_gradient_block(const SoftmaxLoop& loop, const PlaneBlock& block) {
  const std::int64_t row = block.row, count = block.count;
  const std::int64_t channels = loop.x.channels;
  const float* dy = read_rows(loop.dy, row, count, block.scratch.rows);
  const float* y = read_rows(loop.y, row, count, block.scratch.planes);
  float* dx = target_rows(loop.x, row, block.scratch.planes);
  for (std::int64_t r = 0; r < count; ++r) {
    const float *dy_row = dy + r * channels, *y_row = y + r * channels;
    Vec lanes = {};
    float dot = 0;
    std::int64_t c = 0;
    for (; c + kLanes <= channels; c += kLanes)
      lanes += kLog ? load<Vec>(dy_row + c) : load<Vec>(dy_row + c) * load<Vec>(y_row + c);
    for (; c < channels; ++c) dot += kLog ? dy_row[c] : dy_row[c] * y_row[c];
    dot += sum_lanes(lanes);
#pragma GCC ivdep
    for (c = 0; c < channels; ++c)
      dx[r * channels + c] = kLog ? dy_row[c] - kernels::exp(y_row[c]) * dot : y_row[c] * (dy_row[c] - dot);
  }
  finish_rows(loop.x, row, count, dx);
}

}  // namespace

// y = exp(x - max) / sum over channels, or its logarithm.
void softmax_forward(const SoftmaxLoop& loop) {
  for_plane_blocks(loop, [&](const PlaneBlock& block) {
    loop.log ? softmax_block<true>(loop, block) : softmax_block<false>(loop, block);
  });
}

// x (dx) = y * (dy - sum over channels of dy y); of the logarithm dy - e^y (sum over channels of dy).
void softmax_backward(const SoftmaxLoop& loop) {
  for_plane_blocks(loop, [&](const PlaneBlock& block) {
    loop.log ? softmax_gradient_block<true>(loop, block) : softmax_gradient_block<false>(loop, block);
  });
}

}  // namespace tandem::TD_ISA_NAMESPACE

// Softmax over channels and its gradient.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/lanes.h"
#include "core/backends/cpu/loops/planes.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

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
      const float e = kernels::exp(x[r] - highest[r]);
      x[r] = e;
      sum[r] += e;
    }
  }
  for (std::int64_t c = 0; c < loop.x.channels; ++c) {
    float* x = planes + c * loop.block_rows;
    for (std::int64_t r = 0; r < n; ++r) x[r] /= sum[r];
  }
  write_planes(loop, loop.y, block);
}

// Row by row: the sum needs all of dy and y, which lie densely in the two halves of the scratch.
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
    for (; c + kLanes <= channels; c += kLanes) lanes += load<Vec>(dy_row + c) * load<Vec>(y_row + c);
    for (; c < channels; ++c) dot += dy_row[c] * y_row[c];
    dot += sum_lanes(lanes);
#pragma GCC ivdep
    for (c = 0; c < channels; ++c) dx[r * channels + c] = y_row[c] * (dy_row[c] - dot);
  }
  finish_rows(loop.x, row, count, dx);
}

}  // namespace

// y = exp(x - max) / sum over channels.
void softmax_forward(const SoftmaxLoop& loop) {
  for_plane_blocks(loop, [&](const PlaneBlock& block) { softmax_block(loop, block); });
}

// x (dx) = y * (dy - sum over channels of dy y).
void softmax_backward(const SoftmaxLoop& loop) {
  for_plane_blocks(loop, [&](const PlaneBlock& block) { softmax_gradient_block(loop, block); });
}

}  // namespace tandem::TD_ISA_NAMESPACE

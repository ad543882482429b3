// Softmax over channels and its gradient: `width` neighbouring threads share a row.
#pragma once

#include "core/backends/cuda/kernels/block.h"
#include "core/backends/cuda/kernels/elements.h"

namespace tandem::cuda {

// width: a power of two up to 32. One block per kBlockThreads / width rows.
struct RowGroups {
  std::int64_t rows, channels;
  std::int32_t width;
};

// The row of a thread and its first channel; threads beyond the last row take part in exchanges alone.
struct RowPlace {
  std::int64_t row, channel;
  bool active;
};
TD_HD RowPlace row_place(const RowGroups& g, std::int64_t block, int thread) {
  const std::int64_t row = block * (kBlockThreads / g.width) + thread / g.width;
  return {row, thread % g.width, row < g.rows};
}

// y = exp(x - max) / sum, or its logarithm.
template <class T>
struct Softmax {
  RowGroups groups;
  bool log;
  Elements<T> x, y;

  struct Shared {};
  template <class Block>
  TD_D void operator()(Block& block) const {
    const RowPlace at = row_place(groups, block.index(), block.thread());
    const std::int64_t channels = at.active ? groups.channels : 0;
    float highest = -__builtin_inff();
    for (std::int64_t c = at.channel; c < channels; c += groups.width) {
      const float value = x.read(at.row, c);
      highest = value > highest ? value : highest;
    }
    highest = lane_max(block, highest, groups.width);
    float sum = 0;
    for (std::int64_t c = at.channel; c < channels; c += groups.width)
      sum += kernels::exp(x.read(at.row, c) - highest);
    sum = lane_sum(block, sum, groups.width);
    const float log_sum = kernels::log(sum);
    for (std::int64_t c = at.channel; c < channels; c += groups.width) {
      const float d = x.read(at.row, c) - highest;
      y.write(at.row, c, log ? d - log_sum : kernels::exp(d) / sum);
    }
  }
};

// dx = y (dy - sum of dy y); of the logarithm dx = dy - e^y (sum of dy).
template <class T>
struct SoftmaxGradient {
  RowGroups groups;
  bool log;
  Elements<T> dy, y, dx;

  struct Shared {};
  template <class Block>
  TD_D void operator()(Block& block) const {
    const RowPlace at = row_place(groups, block.index(), block.thread());
    const std::int64_t channels = at.active ? groups.channels : 0;
    float dot = 0;
    for (std::int64_t c = at.channel; c < channels; c += groups.width)
      dot += log ? dy.read(at.row, c) : dy.read(at.row, c) * y.read(at.row, c);
    dot = lane_sum(block, dot, groups.width);
    for (std::int64_t c = at.channel; c < channels; c += groups.width) {
      const float of_y = y.read(at.row, c), of_dy = dy.read(at.row, c);
      dx.write(at.row, c, log ? of_dy - kernels::exp(of_y) * dot : of_y * (of_dy - dot));
    }
  }
};

}  // namespace tandem::cuda

// Normalisation with a mean and a variance per row: a warp per row. The gradients of scale and shift are
// NormGradientSums over all rows.
#pragma once

#include "core/backends/cuda/kernels/norm_backward.h"
#include "core/backends/cuda/kernels/softmax.h"

namespace tandem::cuda {

template <class T, int kFused>
struct LayerNorm {
  RowGroups groups;  // width: a warp
  ActivationArgs activation;
  double eps;
  Elements<T> x, y;
  const float *scale, *shift;
  float *mean, *inv_std, *variance;  // variance: may be null

  struct Shared {};
  template <class Block>
  TD_D void operator()(Block& block) const {
    const RowPlace at = row_place(groups, block.index(), block.thread());
    const std::int64_t channels = at.active ? groups.channels : 0;
    const float count = static_cast<float>(groups.channels);
    float sum = 0;
    for (std::int64_t c = at.channel; c < channels; c += groups.width) sum += x.read(at.row, c);
    const float near_mean = lane_sum(block, sum, groups.width) / count;
    float deviation = 0, squares = 0;  // from near_mean
    for (std::int64_t c = at.channel; c < channels; c += groups.width) {
      const float d = x.read(at.row, c) - near_mean;
      deviation += d;
      squares += d * d;
    }
    deviation = lane_sum(block, deviation, groups.width);
    squares = lane_sum(block, squares, groups.width);
    const float shifted = deviation / count;
    const float spread = (squares - deviation * shifted) / count;
    const float factor = static_cast<float>(1.0 / ::sqrt(static_cast<double>(spread) + eps));
    if (at.active && at.channel == 0) {
      mean[at.row] = near_mean + shifted;
      inv_std[at.row] = factor;
      if (variance != nullptr) variance[at.row] = spread;
    }
    for (std::int64_t c = at.channel; c < channels; c += groups.width) {
      const float xhat = ((x.read(at.row, c) - near_mean) - shifted) * factor;
      y.write(at.row, c, activate<kFused>(activation, xhat * scale[c] + shift[c]));
    }
  }
};

template <class T, int kFused>
struct LayerNormGradient {
  RowGroups groups;  // width: a warp
  NormGradientInputs<T> in;
  Elements<T> dx;

  struct Shared {};
  template <class Block>
  TD_D void operator()(Block& block) const {
    const RowPlace at = row_place(groups, block.index(), block.thread());
    const std::int64_t channels = at.active ? groups.channels : 0;
    const float count = static_cast<float>(groups.channels);
    float sum = 0, dot = 0;
    for (std::int64_t c = at.channel; c < channels; c += groups.width) {
      const auto terms = in.template terms<kFused>(at.row, c, at.row);
      const float h = terms.g * in.scale[c];
      sum += h;
      dot += h * terms.xhat;
    }
    const float mean_h = lane_sum(block, sum, groups.width) / count;
    const float mean_hx = lane_sum(block, dot, groups.width) / count;
    for (std::int64_t c = at.channel; c < channels; c += groups.width) {
      const auto terms = in.template terms<kFused>(at.row, c, at.row);
      dx.write(at.row, c, in.inv_std[at.row] * ((terms.g * in.scale[c] - mean_h) - terms.xhat * mean_hx));
    }
  }
};

}  // namespace tandem::cuda

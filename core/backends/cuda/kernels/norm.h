// Normalisation forward: moments of chunks in two passes, merged in double (Chan et al. 1979), then applied
// with the activation. Backward: norm_backward.h; one mean per row: layer_norm.h.
#pragma once

#include "core/backends/cuda/kernels/columns.h"
#include "core/kernels/table.h"

namespace tandem::cuda {

// Activations that kernels are compiled for; the others are chosen at run time.
inline constexpr int kNoActivation = 0, kFusedRelu = 1, kFusedLeakyRelu = 2, kAnyActivation = 3;

struct ActivationArgs {
  Activation activation;
  kernels::MapParams params;
};

template <int kFused>
TD_HD float activate(const ActivationArgs& a, float z) {
  if constexpr (kFused == kFusedRelu) return kernels::Relu::apply(z, a.params);
  if constexpr (kFused == kFusedLeakyRelu) return kernels::LeakyRelu::apply(z, a.params);
  if constexpr (kFused != kAnyActivation) return z;
  switch (a.activation) {
#define TD_ACTIVATE(F)   \
  case Activation::k##F: \
    return kernels::F::apply(z, a.params);
    TD_ACTIVATIONS(TD_ACTIVATE)
#undef TD_ACTIVATE
    case Activation::kNone:
      break;
  }
  return z;
}

// dy times the activation's slope at z.
template <int kFused>
TD_HD float activation_gradient(const ActivationArgs& a, float dy, float z) {
  if constexpr (kFused == kFusedRelu) return kernels::ReluGrad::apply(dy, z, a.params);
  if constexpr (kFused == kFusedLeakyRelu) return kernels::LeakyReluGrad::apply(dy, z, a.params);
  if constexpr (kFused != kAnyActivation) return dy;
  switch (a.activation) {
#define TD_ACTIVATE(F)   \
  case Activation::k##F: \
    return kernels::F##Grad::apply(dy, z, a.params);
    TD_ACTIVATIONS(TD_ACTIVATE)
#undef TD_ACTIVATE
    case Activation::kNone:
      break;
  }
  return dy;
}

// [runs, groups] of F32 by row and channel: NormTensors.
struct NormGroups {
  std::int64_t rows_per_run, groups, channels_per_group;

  TD_HD std::int64_t of(std::int64_t row, std::int64_t c) const {
    const std::int64_t group = channels_per_group == 1 ? c : divide(c, channels_per_group);
    return divide(row, rows_per_run) * groups + group;
  }
};

// partial[piece] = mean[channels], then sum of squared deviations[channels], of a chunk.
template <class T>
struct NormMoments {
  ColumnChunks chunks;
  Elements<T> x;
  double* partial;

  struct Shared {
    float column[kBlockThreads];
  };
  template <class Block>
  TD_D void operator()(Block& block) const {
    const ColumnPlace at = column_place(chunks, block.index(), block.thread());
    const std::int64_t end = at.active ? at.end : at.first;
    const float count = static_cast<float>(at.end - at.begin);
    float(&shared)[kBlockThreads] = block.shared().column;
    float sum = 0;
    for (std::int64_t row = at.first; row < end; row += at.step) sum += x.read(row, at.channel);
    const float near_mean = column_sum(block, shared, sum, chunks.width) / count;
    float deviation = 0, squares = 0;  // from near_mean
    for (std::int64_t row = at.first; row < end; row += at.step) {
      const float d = x.read(row, at.channel) - near_mean;
      deviation += d;
      squares += d * d;
    }
    deviation = column_sum(block, shared, deviation, chunks.width);
    squares = column_sum(block, shared, squares, chunks.width);
    if (!at.writes) return;
    const double all = static_cast<double>(deviation), shift = all / static_cast<double>(count);
    double* to = partial + at.piece * 2 * chunks.channels + at.channel;
    to[0] = static_cast<double>(near_mean) + shift;
    to[chunks.channels] = static_cast<double>(squares) - all * shift;
  }
};

struct Moments {
  double rows, mean, deviation;
};
TD_HD void merge(Moments& a, const Moments& b) {
  if (b.rows == 0) return;
  const double total = a.rows + b.rows, delta = b.mean - a.mean, share = b.rows / total;
  a.mean = a.rows == 0 ? b.mean : a.mean + delta * share;
  a.deviation += b.deviation + (a.rows == 0 ? 0.0 : delta * delta * (a.rows * share));
  a.rows = total;
}

// Merges the moments of a run's group, one block each: mean, what its rounding lost, inv_std, and variance
// where there is one.
struct NormFinish {
  ColumnChunks chunks;
  std::int64_t groups;
  double eps;
  const double* partial;
  float *mean, *lost, *inv_std, *variance;

  struct Shared {
    Moments warp[kBlockWarps];
  };
  TD_HD Moments chunk_moments(std::int64_t run, std::int64_t chunk, std::int64_t c) const {
    const double* from = partial + (run * chunks.chunks + chunk) * 2 * chunks.channels + c;
    const std::int64_t left = chunks.rows_per_run - chunk * chunks.rows_per_chunk;
    const std::int64_t rows = left < chunks.rows_per_chunk ? left : chunks.rows_per_chunk;
    return {static_cast<double>(rows), from[0], from[chunks.channels]};
  }
  template <class Block>
  TD_D void operator()(Block& block) const {
    const Place at = split(block.index(), groups);
    const std::int64_t each = chunks.channels / groups, first = at.column * each;
    Moments all{0, 0, 0};
    for (std::int64_t j = block.thread(); j < each * chunks.chunks; j += kBlockThreads) {
      const Place item = split(j, each);
      merge(all, chunk_moments(at.row, item.row, first + item.column));
    }
    for (int mask = kWarpThreads / 2; mask > 0; mask /= 2) {
      const Moments other{block.exchange(all.rows, mask), block.exchange(all.mean, mask),
                          block.exchange(all.deviation, mask)};
      merge(all, other);
    }
    if (block.thread() % kWarpThreads == 0) block.shared().warp[block.thread() / kWarpThreads] = all;
    block.sync();
    if (block.thread() != 0) return;
    for (int w = 1; w < kBlockWarps; ++w) merge(all, block.shared().warp[w]);
    const double spread = all.deviation / all.rows;
    const std::int64_t to = block.index();
    mean[to] = static_cast<float>(all.mean);
    lost[to] = static_cast<float>(all.mean - static_cast<double>(mean[to]));
    inv_std[to] = static_cast<float>(1.0 / ::sqrt(spread + eps));
    if (variance != nullptr) variance[to] = static_cast<float>(spread);
  }
};

// inv_std from given variances.
struct NormFixed {
  std::int64_t count;
  double eps;
  const float* variance;
  float* inv_std;

  TD_HD void operator()(std::int64_t i) const {
    inv_std[i] = static_cast<float>(1.0 / ::sqrt(static_cast<double>(variance[i]) + eps));
  }
};

// y = activation((x - mean) inv_std scale + shift), an index per element. lost: may be null.
template <class T, int kFused>
struct NormApply {
  std::int64_t count, channels;
  NormGroups groups;
  ActivationArgs activation;
  Elements<T> x, y;
  const float *mean, *lost, *inv_std, *scale, *shift;

  TD_HD void operator()(std::int64_t i) const {
    const Place at = split(i, channels);
    const std::int64_t group = groups.of(at.row, at.column);
    const float slope = inv_std[group] * scale[at.column];
    const float offset = shift[at.column] - (lost == nullptr ? 0.0f : lost[group] * slope);
    const float z = (x.read(at.row, at.column) - mean[group]) * slope + offset;
    y.write(at.row, at.column, activate<kFused>(activation, z));
  }
};

}  // namespace tandem::cuda

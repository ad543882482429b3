// The gradient of normalisation: per channel sums over chunks, sums of the groups, then dx. With xhat = (x -
// mean) inv_std, z = xhat scale + shift, g = dy activation'(z) and h = g scale:
// dx = inv_std (h - mean(h) - xhat mean(h xhat)), dscale = sum g xhat, dshift = sum g.
#pragma once

#include "core/backends/cuda/kernels/norm.h"

namespace tandem::cuda {

// What all passes read.
template <class T>
struct NormGradientInputs {
  NormGroups groups;
  ActivationArgs activation;
  Elements<T> x, dy;
  const float *mean, *inv_std, *scale, *shift;

  // g and xhat of one element.
  struct Terms {
    float g, xhat;
  };
  template <int kFused>
  TD_HD Terms terms(std::int64_t row, std::int64_t c, std::int64_t group) const {
    const float xhat = (x.read(row, c) - mean[group]) * inv_std[group];
    const float z = xhat * scale[c] + shift[c];
    return {activation_gradient<kFused>(activation, dy.read(row, c), z), xhat};
  }
};

// partial[piece] = sum of g[channels], then sum of g xhat[channels], of a chunk.
template <class T, int kFused>
struct NormGradientSums {
  ColumnChunks chunks;
  NormGradientInputs<T> in;
  double* partial;

  struct Shared {
    float column[kBlockThreads];
  };
  template <class Block>
  TD_D void operator()(Block& block) const {
    const ColumnPlace at = column_place(chunks, block.index(), block.thread());
    const std::int64_t end = at.active ? at.end : at.first;
    float g = 0, gx = 0;
    for (std::int64_t row = at.first; row < end; row += at.step) {
      const auto terms = in.template terms<kFused>(row, at.channel, in.groups.of(row, at.channel));
      g += terms.g;
      gx += terms.g * terms.xhat;
    }
    g = column_sum(block, block.shared().column, g, chunks.width);
    gx = column_sum(block, block.shared().column, gx, chunks.width);
    if (!at.writes) return;
    double* to = partial + at.piece * 2 * chunks.channels + at.channel;
    to[0] = static_cast<double>(g);
    to[chunks.channels] = static_cast<double>(gx);
  }
};

// The means of h and h xhat of a run's group, one block each; of g and g xhat where a group is one channel.
struct NormGradientFinish {
  ColumnChunks chunks;
  std::int64_t groups;
  const double* partial;
  const float* scale;
  float *mean_h, *mean_hx;

  struct Shared {
    double warp[kBlockWarps];
  };
  template <class Block>
  TD_D void operator()(Block& block) const {
    const Place at = split(block.index(), groups);
    const std::int64_t each = chunks.channels / groups, first = at.column * each;
    double h = 0, hx = 0;
    for (std::int64_t j = block.thread(); j < each * chunks.chunks; j += kBlockThreads) {
      const Place item = split(j, each);
      const std::int64_t c = first + item.column;
      const double* from = partial + (at.row * chunks.chunks + item.row) * 2 * chunks.channels + c;
      const double weight = each == 1 ? 1.0 : static_cast<double>(scale[c]);
      h += weight * from[0];
      hx += weight * from[chunks.channels];
    }
    h = block_sum(block, block.shared().warp, h);
    hx = block_sum(block, block.shared().warp, hx);
    if (block.thread() != 0) return;
    const double count = static_cast<double>(chunks.rows_per_run * each);
    mean_h[block.index()] = static_cast<float>(h / count);
    mean_hx[block.index()] = static_cast<float>(hx / count);
  }
};

// dx, an index per element. Fixed statistics have no gradient: their means (null) are 0, and an x that is not
// finite has none either. The scale of a group of one channel is a factor of all, so that equal terms cancel
// exactly.
template <class T, int kFused>
struct NormGradient {
  std::int64_t count, channels;
  NormGradientInputs<T> in;
  Elements<T> dx;
  const float *mean_h, *mean_hx;

  TD_HD void operator()(std::int64_t i) const {
    const Place at = split(i, channels);
    const std::int64_t group = in.groups.of(at.row, at.column);
    const auto terms = in.template terms<kFused>(at.row, at.column, group);
    const float scale = in.scale[at.column];
    const bool single = in.groups.channels_per_group == 1;
    const float h = single ? terms.g : terms.g * scale;
    const float by = single ? in.inv_std[group] * scale : in.inv_std[group];
    const float mean = mean_h == nullptr ? 0.0f : mean_h[group];
    const float mean_x = mean_hx == nullptr ? 0.0f : mean_hx[group];
    const float rest = (h - mean) - terms.xhat * mean_x;
    dx.write(at.row, at.column, by * rest);
  }
};

}  // namespace tandem::cuda

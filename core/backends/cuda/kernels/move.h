// Copies that only change where elements lie: transposed planes, boxes, blocks of a volume; and resize by
// tables.
#pragma once

#include "core/backends/cuda/kernels/block.h"
#include "core/backends/cuda/kernels/elements.h"

namespace tandem::cuda {

// y[n][b][a] = x[n][a][b], tile by tile through shared memory, so that both sides are read along their rows.
// One block per n and tile. U: an unsigned integer of the element's size.
template <class U>
struct Transpose {
  static constexpr int kTile = 32;
  std::int64_t a, b, a_tiles, b_tiles;
  const U* x;
  U* y;

  struct Shared {
    U tile[kTile][kTile + 1];  // an odd pitch: columns of a tile lie in different banks
  };
  template <class Block>
  TD_D void operator()(Block& block) const {
    const Place of_b = split(block.index(), b_tiles), of_a = split(of_b.row, a_tiles);
    const std::int64_t first_a = of_a.column * kTile, first_b = of_b.column * kTile, plane = of_a.row * a * b;
    const int column = block.thread() % kTile, lane = block.thread() / kTile;
    for (int i = lane; i < kTile; i += kBlockThreads / kTile)
      if (first_a + i < a && first_b + column < b)
        block.shared().tile[i][column] = x[plane + (first_a + i) * b + first_b + column];
    block.sync();
    for (int j = lane; j < kTile; j += kBlockThreads / kTile)
      if (first_b + j < b && first_a + column < a)
        y[plane + (first_b + j) * a + first_a + column] = block.shared().tile[column][j];
  }
};

// A box of elements between two sets of strides; the last axis is the fastest index.
template <class U>
struct MoveBox {
  static constexpr int kMaxRank = 6;
  std::int64_t count;
  int rank;
  std::int64_t size[kMaxRank], from_stride[kMaxRank], to_stride[kMaxRank];
  const U* from;
  U* to;

  TD_HD void operator()(std::int64_t i) const {
    std::int64_t source = 0, target = 0;
    for (int axis = rank; axis-- > 0;) {
      const Place at = split(i, size[axis]);
      source += at.column * from_stride[axis];
      target += at.column * to_stride[axis];
      i = at.row;
    }
    to[target] = from[source];
  }
};

// Backend::depth_to_space: an index is an element of the volume [batch, size * stride, channels].
template <class T>
struct DepthToSpace {
  std::int64_t count, channels;
  std::int64_t size[3], stride[3];  // blocks per axis, voxels per block
  bool inverse;
  Elements<T> blocks, volume;
  const float* bias;

  TD_HD void operator()(std::int64_t i) const {
    const Place at = split(i, channels);
    const std::int64_t voxels[3] = {size[0] * stride[0], size[1] * stride[1], size[2] * stride[2]};
    const Voxel v = voxel_of(at.row, voxels);
    std::int64_t row = v.n, tap = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const Place in_block = split(v.at[axis], stride[axis]);
      row = row * size[axis] + in_block.row;
      tap = tap * stride[axis] + in_block.column;
    }
    const std::int64_t column = tap * channels + at.column;
    if (inverse)
      blocks.write(row, column, volume.read(at.row, at.column));
    else
      volume.write(at.row, at.column, blocks.read(row, column) + (bias == nullptr ? 0.0f : bias[at.column]));
  }
};

// The tables of one axis: ResizeAxis.
struct ResizeTable {
  const std::int32_t *low, *high, *begin, *end;
  const float* weight;
};

// Backend::resize: an index is an element of y; FP32 sums over the taps, one store.
template <class T>
struct Resize {
  std::int64_t count, channels;
  std::int64_t x_size[3], y_size[3];
  bool adjoint;
  ResizeTable axis[3];
  Elements<T> x, y;

  struct Tap {
    std::int64_t at;
    float weight;
  };
  // The taps of position `p` are numbers first .. end - 1.
  TD_HD std::int64_t first(int a, std::int64_t p) const { return adjoint ? axis[a].begin[p] : 0; }
  TD_HD std::int64_t end(int a, std::int64_t p) const {
    if (adjoint) return axis[a].end[p];
    return axis[a].weight[p] == 0.0f ? 1 : 2;
  }
  TD_HD Tap tap(int a, std::int64_t p, std::int64_t k) const {
    const ResizeTable& t = axis[a];
    if (!adjoint) return k == 0 ? Tap{t.low[p], 1.0f - t.weight[p]} : Tap{t.high[p], t.weight[p]};
    const float at_low = t.low[k] == p ? 1.0f - t.weight[k] : 0.0f;
    return {k, at_low + (t.high[k] == p ? t.weight[k] : 0.0f)};
  }

  TD_HD void operator()(std::int64_t i) const {
    const Place place = split(i, channels);
    const Voxel v = voxel_of(place.row, y_size);
    float sum = 0;
    for (std::int64_t a = first(0, v.at[0]); a < end(0, v.at[0]); ++a) {
      const Tap z = tap(0, v.at[0], a);
      for (std::int64_t b = first(1, v.at[1]); b < end(1, v.at[1]); ++b) {
        const Tap y_tap = tap(1, v.at[1], b);
        const std::int64_t line = ((v.n * x_size[0] + z.at) * x_size[1] + y_tap.at) * x_size[2];
        for (std::int64_t c = first(2, v.at[2]); c < end(2, v.at[2]); ++c) {
          const Tap x_tap = tap(2, v.at[2], c);
          const float weight = z.weight * y_tap.weight * x_tap.weight;
          if (weight != 0.0f) sum += weight * x.read(line + x_tap.at, place.column);  // 0 inf is not 0
        }
      }
    }
    y.write(place.row, place.column, sum);
  }
};

}  // namespace tandem::cuda

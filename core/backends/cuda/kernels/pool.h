// Max and average pooling, an index per element. Backward gathers for an input voxel from the windows that
// hold it, in a fixed order, and stores once.
#pragma once

#include "core/backends/cuda/kernels/elements.h"

namespace tandem::cuda {

struct PoolShape {
  std::int64_t channels;
  std::int64_t in[3], out[3], kernel[3], stride[3], padding[3];
  bool count_padding;
};

struct PoolRange {
  std::int64_t begin, end;
};
// Input positions of window o that lie inside.
TD_HD PoolRange window(const PoolShape& g, int axis, std::int64_t o) {
  const std::int64_t begin = o * g.stride[axis] - g.padding[axis], end = begin + g.kernel[axis];
  return {begin > 0 ? begin : 0, end < g.in[axis] ? end : g.in[axis]};
}
// Windows that hold input position i.
TD_HD PoolRange windows_of(const PoolShape& g, int axis, std::int64_t i) {
  const std::int64_t at = i + g.padding[axis], end = divide(at, g.stride[axis]) + 1;
  return {at < g.kernel[axis] ? 0 : divide(at - g.kernel[axis], g.stride[axis]) + 1,
          end < g.out[axis] ? end : g.out[axis]};
}

struct PoolBox {
  PoolRange axis[3];
};
TD_HD PoolBox window_box(const PoolShape& g, const std::int64_t o[3]) {
  return {{window(g, 0, o[0]), window(g, 1, o[1]), window(g, 2, o[2])}};
}
TD_HD float pool_divisor(const PoolShape& g, const PoolBox& box) {
  std::int64_t count = 1;
  for (int a = 0; a < 3; ++a) count *= g.count_padding ? g.kernel[a] : box.axis[a].end - box.axis[a].begin;
  return static_cast<float>(count);
}

// y = the window's greatest (first of equals, NaN wins), indices = its voxel within the sample.
template <class T>
struct MaxPool {
  std::int64_t count;
  PoolShape shape;
  Elements<T> x, y;
  std::int32_t* indices;  // packed

  TD_HD void operator()(std::int64_t i) const {
    const Place place = split(i, shape.channels);
    const Voxel o = voxel_of(place.row, shape.out);
    const PoolBox box = window_box(shape, o.at);
    const std::int64_t base = o.n * shape.in[0] * shape.in[1] * shape.in[2];
    std::int64_t best_at =
        (box.axis[0].begin * shape.in[1] + box.axis[1].begin) * shape.in[2] + box.axis[2].begin;
    float best = x.read(base + best_at, place.column);
    for (std::int64_t z = box.axis[0].begin; z < box.axis[0].end; ++z)
      for (std::int64_t y_at = box.axis[1].begin; y_at < box.axis[1].end; ++y_at)
        for (std::int64_t x_at = box.axis[2].begin; x_at < box.axis[2].end; ++x_at) {
          const std::int64_t at = (z * shape.in[1] + y_at) * shape.in[2] + x_at;
          const float value = x.read(base + at, place.column);
          if (best != best || value <= best) continue;
          best = value;
          best_at = at;
        }
    y.write(place.row, place.column, best);
    indices[i] = static_cast<std::int32_t>(best_at);
  }
};

template <class T>
struct AveragePool {
  std::int64_t count;
  PoolShape shape;
  Elements<T> x, y;

  TD_HD void operator()(std::int64_t i) const {
    const Place place = split(i, shape.channels);
    const Voxel o = voxel_of(place.row, shape.out);
    const PoolBox box = window_box(shape, o.at);
    float sum = 0;
    for (std::int64_t z = box.axis[0].begin; z < box.axis[0].end; ++z)
      for (std::int64_t y_at = box.axis[1].begin; y_at < box.axis[1].end; ++y_at)
        for (std::int64_t x_at = box.axis[2].begin; x_at < box.axis[2].end; ++x_at)
          sum += x.read(((o.n * shape.in[0] + z) * shape.in[1] + y_at) * shape.in[2] + x_at, place.column);
    y.write(place.row, place.column, sum / pool_divisor(shape, box));
  }
};

// dx from dy: of max pooling where indices say so, of average pooling (indices null) over the window's size.
template <class T>
struct PoolGradient {
  std::int64_t count;
  PoolShape shape;
  Elements<T> dx, dy;
  const std::int32_t* indices;  // packed

  TD_HD void operator()(std::int64_t i) const {
    const Place place = split(i, shape.channels);
    const Voxel v = voxel_of(place.row, shape.in);
    const std::int64_t self = (v.at[0] * shape.in[1] + v.at[1]) * shape.in[2] + v.at[2];
    const PoolRange d = windows_of(shape, 0, v.at[0]), h = windows_of(shape, 1, v.at[1]),
                    w = windows_of(shape, 2, v.at[2]);
    float sum = 0;
    for (std::int64_t z = d.begin; z < d.end; ++z)
      for (std::int64_t y = h.begin; y < h.end; ++y)
        for (std::int64_t x = w.begin; x < w.end; ++x) {
          const std::int64_t row = ((v.n * shape.out[0] + z) * shape.out[1] + y) * shape.out[2] + x;
          if (indices != nullptr) {
            if (indices[row * shape.channels + place.column] == self) sum += dy.read(row, place.column);
          } else {
            const std::int64_t o[3] = {z, y, x};
            sum += dy.read(row, place.column) / pool_divisor(shape, window_box(shape, o));
          }
        }
    dx.write(place.row, place.column, sum);
  }
};

}  // namespace tandem::cuda

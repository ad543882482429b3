// Linear and nearest resize by per-axis tables: forward sums the taps of an output voxel, the adjoint gathers
// for an input voxel the outputs that read it. FP32 sums in a fixed order, one store; a few vectors of
// channels at a time.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/stage.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

// A voxel that is read and its share of the result.
struct Tap {
  std::int64_t row;
  float weight;
};

// The taps of one axis: positions and weights.
struct AxisTaps {
  std::int64_t first, count;
};

inline AxisTaps taps_of(const ResizeLoop& loop, int axis, std::int64_t position) {
  if (!loop.adjoint) return {0, loop.weight[axis][position] == 0.0f ? 1 : 2};
  return {loop.begin[axis][position], loop.end[axis][position] - loop.begin[axis][position]};
}

// Where tap `k` of `position` reads along `axis`, and its weight.
inline Tap axis_tap(const ResizeLoop& loop, int axis, std::int64_t position, AxisTaps taps, std::int64_t k) {
  if (!loop.adjoint) {
    const float high = loop.weight[axis][position];
    return k == 0 ? Tap{loop.low[axis][position], 1.0f - high} : Tap{loop.high[axis][position], high};
  }
  const std::int64_t o = taps.first + k;
  const float high = loop.weight[axis][o];
  const float at_low = loop.low[axis][o] == position ? 1.0f - high : 0.0f;
  return {o, at_low + (loop.high[axis][o] == position ? high : 0.0f)};
}

// Calls body(row of x, weight) for all taps of the voxel (z, y, x) of sample n, without those of weight 0: 0
// times infinity is not 0.
template <class Body>
inline void for_taps(const ResizeLoop& loop, std::int64_t n, const std::int64_t at[3], const Body& body) {
  const std::int64_t* size = loop.x_size;
  const AxisTaps d = taps_of(loop, 0, at[0]), h = taps_of(loop, 1, at[1]), w = taps_of(loop, 2, at[2]);
  for (std::int64_t i = 0; i < d.count; ++i) {
    const Tap z = axis_tap(loop, 0, at[0], d, i);
    for (std::int64_t j = 0; j < h.count; ++j) {
      const Tap y = axis_tap(loop, 1, at[1], h, j);
      const std::int64_t line = ((n * size[0] + z.row) * size[1] + y.row) * size[2];
      const float weight = z.weight * y.weight;
      for (std::int64_t k = 0; k < w.count; ++k) {
        const Tap x = axis_tap(loop, 2, at[2], w, k);
        if (weight * x.weight != 0.0f) body(line + x.row, weight * x.weight);
      }
    }
  }
}

template <class T>
inline T* row_of(const Matrix& m, std::int64_t row) {
  return static_cast<T*>(m.data) + row * m.pitch;
}

// Channels [c, c + U vectors) of one voxel.
template <class T, class V, int U>
inline void resize_slice(const ResizeLoop& loop, std::int64_t n, const std::int64_t at[3], std::int64_t row,
                         std::int64_t c) {
  constexpr int kStep = sizeof(V) / sizeof(float);
  V sum[U] = {};
  for_taps(loop, n, at, [&](std::int64_t from, float weight) {
    const T* x = row_of<T>(loop.x, from) + c;
    for (int u = 0; u < U; ++u) sum[u] += weight * load<V>(x + u * kStep);
  });
  T* y = row_of<T>(loop.y, row) + c;
  for (int u = 0; u < U; ++u) store<V>(y + u * kStep, sum[u]);
}

}  // namespace

// y = R x, or R^T x for the adjoint; a task is one line of y along w. x and y have one dtype.
void resize(const ResizeLoop& loop) {
  const std::int64_t* size = loop.y_size;
  with_type(loop.x.dtype, [&]<class T>() {
    parallel_tasks(loop.batch * size[0] * size[1], loop.threads, [&](std::int64_t line, int) {
      const std::int64_t n = line / size[1] / size[0], channels = loop.x.channels;
      std::int64_t at[3] = {line / size[1] % size[0], line % size[1], 0};
      for (; at[2] < size[2]; ++at[2]) {
        const std::int64_t row = line * size[2] + at[2];
        std::int64_t c = 0;
        for (; c + 4 * kLanes <= channels; c += 4 * kLanes) resize_slice<T, Vec, 4>(loop, n, at, row, c);
        for (; c + kLanes <= channels; c += kLanes) resize_slice<T, Vec, 1>(loop, n, at, row, c);
        for (; c < channels; ++c) resize_slice<T, float, 1>(loop, n, at, row, c);
      }
    });
  });
}

}  // namespace tandem::TD_ISA_NAMESPACE

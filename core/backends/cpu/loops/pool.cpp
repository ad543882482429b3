// Max and average pooling. Forward walks windows; backward walks input voxels and gathers from the windows
// that hold them, so each gradient is summed in FP32 in a fixed order and stored once. A few vectors of
// channels at a time stay in registers over a whole window.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/stage.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

struct Range {
  std::int64_t begin, end;
};

// Input positions of window `o` along `axis` that lie inside.
inline Range window(const PoolLoop& g, int axis, std::int64_t o) {
  const std::int64_t begin = o * g.stride[axis] - g.padding[axis], end = begin + g.kernel[axis];
  return {begin > 0 ? begin : 0, end < g.in[axis] ? end : g.in[axis]};
}

// Windows along `axis` that hold input position `i`. 32 bits: the division is most of the work of a narrow
// voxel.
inline Range windows_of(const PoolLoop& g, int axis, std::int64_t i) {
  const auto at = static_cast<std::uint32_t>(i + g.padding[axis]);
  const auto kernel = static_cast<std::uint32_t>(g.kernel[axis]),
             stride = static_cast<std::uint32_t>(g.stride[axis]);
  const std::int64_t begin = at < kernel ? 0 : (at - kernel) / stride + 1, end = at / stride + 1;
  return {begin, end < g.out[axis] ? end : g.out[axis]};
}

// What one pooled sum is divided by.
inline float divisor(const PoolLoop& g, Range d, Range h, Range w) {
  if (g.count_padding) return static_cast<float>(g.kernel[0] * g.kernel[1] * g.kernel[2]);
  return static_cast<float>((d.end - d.begin) * (h.end - h.begin) * (w.end - w.begin));
}

template <class T>
inline T* row_of(const Matrix& m, std::int64_t row) {
  return static_cast<T*>(m.data) + row * m.pitch;
}
inline std::int32_t* indices_of(const PoolLoop& loop, std::int64_t row) {
  return static_cast<std::int32_t*>(loop.indices.data) + row * loop.indices.pitch;
}

// Runs body.operator()<V, U>(c) over the channels: U values of V from channel c.
template <class Body>
inline void for_slices(std::int64_t channels, const Body& body) {
  std::int64_t c = 0;
  for (; c + 4 * kLanes <= channels; c += 4 * kLanes) body.template operator()<Vec, 4>(c);
  for (; c + kLanes <= channels; c += kLanes) body.template operator()<Vec, 1>(c);
  for (; c < channels; ++c) body.template operator()<float, 1>(c);
}

// A window and where it stands.
struct Window {
  std::int64_t sample, row;  // row of y
  Range d, h, w;
};

// Calls body(row of x, d*H*W + h*W + w) for the window's voxels.
template <class Body>
inline void for_voxels(const PoolLoop& g, const Window& at, const Body& body) {
  const std::int64_t base = at.sample * g.in[0] * g.in[1] * g.in[2];
  for (std::int64_t z = at.d.begin; z < at.d.end; ++z)
    for (std::int64_t y = at.h.begin; y < at.h.end; ++y)
      for (std::int64_t x = at.w.begin; x < at.w.end; ++x) {
        const std::int64_t position = (z * g.in[1] + y) * g.in[2] + x;
        body(base + position, static_cast<std::int32_t>(position));
      }
}

// The greatest value and its first position; NaN is greater than any number.
template <class T>
void max_window(const PoolLoop& loop, const Window& at) {
  for_slices(loop.channels, [&]<class V, int U>(std::int64_t c) {
    using I = typename IntegerOf<V>::Type;
    constexpr int kStep = sizeof(V) / sizeof(float);
    const std::int64_t first = (at.d.begin * loop.in[1] + at.h.begin) * loop.in[2] + at.w.begin;
    const T* start = row_of<T>(loop.x, at.sample * loop.in[0] * loop.in[1] * loop.in[2] + first) + c;
    V best[U];
    I index[U];
    for (int u = 0; u < U; ++u) {
      best[u] = load<V>(start + u * kStep);
      index[u] = I{} + static_cast<std::int32_t>(first);
    }
    for_voxels(loop, at, [&](std::int64_t row, std::int32_t position) {
      const T* x = row_of<T>(loop.x, row) + c;
      for (int u = 0; u < U; ++u) {
        const V value = load<V>(x + u * kStep);
        const auto stays = value <= best[u], is_number = best[u] == best[u];
        index[u] = is_number ? (stays ? index[u] : I{} + position) : index[u];
        best[u] = is_number ? (stays ? best[u] : value) : best[u];
      }
    });
    for (int u = 0; u < U; ++u) {
      store<V>(row_of<T>(loop.y, at.row) + c + u * kStep, best[u]);
      __builtin_memcpy(indices_of(loop, at.row) + c + u * kStep, &index[u], sizeof(I));
    }
  });
}

template <class T>
void average_window(const PoolLoop& loop, const Window& at) {
  const float by = divisor(loop, at.d, at.h, at.w);
  for_slices(loop.channels, [&]<class V, int U>(std::int64_t c) {
    constexpr int kStep = sizeof(V) / sizeof(float);
    V sum[U] = {};
    for_voxels(loop, at, [&](std::int64_t row, std::int32_t) {
      const T* x = row_of<T>(loop.x, row) + c;
      for (int u = 0; u < U; ++u) sum[u] += load<V>(x + u * kStep);
    });
    for (int u = 0; u < U; ++u) store<V>(row_of<T>(loop.y, at.row) + c + u * kStep, sum[u] / by);
  });
}

// Calls body(row of y, z, y, x) for the windows of the three ranges.
template <class Body>
inline void for_windows(const PoolLoop& g, const Window& at, const Body& body) {
  for (std::int64_t z = at.d.begin; z < at.d.end; ++z)
    for (std::int64_t y = at.h.begin; y < at.h.end; ++y)
      for (std::int64_t x = at.w.begin; x < at.w.end; ++x)
        body(((at.sample * g.out[0] + z) * g.out[1] + y) * g.out[2] + x, z, y, x);
}

// `at` holds the windows of one input voxel, at.row is its row, `self` its position.
template <class T>
void max_gradient(const PoolLoop& loop, const Window& at, std::int32_t self) {
  for_slices(loop.channels, [&]<class V, int U>(std::int64_t c) {
    using I = typename IntegerOf<V>::Type;
    constexpr int kStep = sizeof(V) / sizeof(float);
    V sum[U] = {};
    for_windows(loop, at, [&](std::int64_t row, std::int64_t, std::int64_t, std::int64_t) {
      const T* dy = row_of<T>(loop.y, row) + c;
      for (int u = 0; u < U; ++u) {
        I index;
        __builtin_memcpy(&index, indices_of(loop, row) + c + u * kStep, sizeof(I));
        sum[u] += index == self ? load<V>(dy + u * kStep) : V{};
      }
    });
    for (int u = 0; u < U; ++u) store<V>(row_of<T>(loop.x, at.row) + c + u * kStep, sum[u]);
  });
}

template <class T>
void average_gradient(const PoolLoop& loop, const Window& at) {
  for_slices(loop.channels, [&]<class V, int U>(std::int64_t c) {
    constexpr int kStep = sizeof(V) / sizeof(float);
    V sum[U] = {};
    for_windows(loop, at, [&](std::int64_t row, std::int64_t z, std::int64_t y, std::int64_t x) {
      const float by = divisor(loop, window(loop, 0, z), window(loop, 1, y), window(loop, 2, x));
      const T* dy = row_of<T>(loop.y, row) + c;
      for (int u = 0; u < U; ++u) sum[u] += load<V>(dy + u * kStep) / by;
    });
    for (int u = 0; u < U; ++u) store<V>(row_of<T>(loop.x, at.row) + c + u * kStep, sum[u]);
  });
}

}  // namespace

// A task is one line of windows along w. x and y have one dtype.
void pool_forward(const PoolLoop& loop) {
  with_type(loop.x.dtype, [&]<class T>() {
    parallel_tasks(loop.batch * loop.out[0] * loop.out[1], loop.threads, [&](std::int64_t line, int) {
      const std::int64_t y = line % loop.out[1], z = line / loop.out[1] % loop.out[0];
      Window at{
          line / loop.out[1] / loop.out[0], line * loop.out[2], window(loop, 0, z), window(loop, 1, y), {}};
      for (std::int64_t x = 0; x < loop.out[2]; ++x, ++at.row) {
        at.w = window(loop, 2, x);
        if (loop.max)
          max_window<T>(loop, at);
        else
          average_window<T>(loop, at);
      }
    });
  });
}

// A task is one line of input voxels along w. loop.x is dx, loop.y dy, of one dtype.
void pool_backward(const PoolLoop& loop) {
  with_type(loop.x.dtype, [&]<class T>() {
    parallel_tasks(loop.batch * loop.in[0] * loop.in[1], loop.threads, [&](std::int64_t line, int) {
      const std::int64_t y = line % loop.in[1], z = line / loop.in[1] % loop.in[0];
      Window at{line / loop.in[1] / loop.in[0],
                line * loop.in[2],
                windows_of(loop, 0, z),
                windows_of(loop, 1, y),
                {}};
      const std::int64_t first = (z * loop.in[1] + y) * loop.in[2];
      for (std::int64_t x = 0; x < loop.in[2]; ++x, ++at.row) {
        at.w = windows_of(loop, 2, x);
        if (loop.max)
          max_gradient<T>(loop, at, static_cast<std::int32_t>(first + x));
        else
          average_gradient<T>(loop, at);
      }
    });
  });
}

}  // namespace tandem::TD_ISA_NAMESPACE

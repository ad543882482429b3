// Max and average pooling. Forward walks windows; backward walks input voxels and gathers from the windows
// that hold them, so each gradient is summed in FP32 in a fixed order and stored once.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/stage.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

constexpr std::int64_t kSlice = 256;  // channels at a time

struct Range {
  std::int64_t begin, end;
};

// Input positions of window `o` along `axis` that lie inside.
inline Range window(const PoolLoop& g, int axis, std::int64_t o) {
  const std::int64_t begin = o * g.stride[axis] - g.padding[axis], end = begin + g.kernel[axis];
  return {begin > 0 ? begin : 0, end < g.in[axis] ? end : g.in[axis]};
}

// Windows along `axis` that hold input position `i`.
inline Range windows_of(const PoolLoop& g, int axis, std::int64_t i) {
  const std::int64_t at = i + g.padding[axis];
  const std::int64_t begin = at < g.kernel[axis] ? 0 : (at - g.kernel[axis]) / g.stride[axis] + 1;
  const std::int64_t end = at / g.stride[axis] + 1;
  return {begin, end < g.out[axis] ? end : g.out[axis]};
}

// What one pooled sum is divided by.
inline float divisor(const PoolLoop& g, Range d, Range h, Range w) {
  if (g.count_padding) return static_cast<float>(g.kernel[0] * g.kernel[1] * g.kernel[2]);
  return static_cast<float>((d.end - d.begin) * (h.end - h.begin) * (w.end - w.begin));
}

inline const float* slice_of(const Matrix& m, std::int64_t row, std::int64_t first, std::int64_t n,
                             float* buffer) {
  const char* from = static_cast<const char*>(m.data) + (row * m.pitch + first) * element_bytes(m.dtype);
  if (m.dtype == DType::kF32) return reinterpret_cast<const float*>(from);
  widen(from, m.dtype, buffer, n);
  return buffer;
}

inline void store_slice(const Matrix& m, std::int64_t row, std::int64_t first, std::int64_t n,
                        const float* values) {
  narrow(values, static_cast<char*>(m.data) + (row * m.pitch + first) * element_bytes(m.dtype), m.dtype, n);
}

inline std::int32_t* indices_of(const PoolLoop& loop, std::int64_t row, std::int64_t first) {
  return static_cast<std::int32_t*>(loop.indices.data) + row * loop.indices.pitch + first;
}

// Takes x where it is greater, or NaN and the best is not: the first of equals stays.
inline void take_greater(const float* x, std::int32_t position, std::int64_t n, float* best,
                         std::int32_t* index) {
  for (std::int64_t c = 0; c < n; ++c) {
    const bool greater = !(x[c] <= best[c]) & (best[c] == best[c]);
    best[c] = greater ? x[c] : best[c];
    index[c] = greater ? position : index[c];
  }
}

// Calls body(row, position) for the voxels of window (d, h, w) of sample n: row of x, d*H*W + h*W + w.
template <class Body>
inline void for_window(const PoolLoop& g, std::int64_t n, Range d, Range h, Range w, const Body& body) {
  for (std::int64_t z = d.begin; z < d.end; ++z)
    for (std::int64_t y = h.begin; y < h.end; ++y)
      for (std::int64_t x = w.begin; x < w.end; ++x) {
        const std::int64_t position = (z * g.in[1] + y) * g.in[2] + x;
        body(n * g.in[0] * g.in[1] * g.in[2] + position, static_cast<std::int32_t>(position));
      }
}

void max_window(const PoolLoop& loop, std::int64_t n, std::int64_t row, Range d, Range h, Range w) {
  alignas(64) float stage[kSlice], best[kSlice];
  alignas(64) std::int32_t index[kSlice];
  for (std::int64_t first = 0; first < loop.channels; first += kSlice) {
    const std::int64_t count = loop.channels - first < kSlice ? loop.channels - first : kSlice;
    bool started = false;
    for_window(loop, n, d, h, w, [&](std::int64_t from, std::int32_t position) {
      const float* x = slice_of(loop.x, from, first, count, stage);
      if (started) return take_greater(x, position, count, best, index);
      started = true;
      for (std::int64_t c = 0; c < count; ++c) {
        best[c] = x[c];
        index[c] = position;
      }
    });
    store_slice(loop.y, row, first, count, best);
    std::int32_t* indices = indices_of(loop, row, first);
    for (std::int64_t c = 0; c < count; ++c) indices[c] = index[c];
  }
}

void average_window(const PoolLoop& loop, std::int64_t n, std::int64_t row, Range d, Range h, Range w) {
  alignas(64) float stage[kSlice], sum[kSlice];
  const float by = divisor(loop, d, h, w);
  for (std::int64_t first = 0; first < loop.channels; first += kSlice) {
    const std::int64_t count = loop.channels - first < kSlice ? loop.channels - first : kSlice;
    for (std::int64_t c = 0; c < count; ++c) sum[c] = 0;
    for_window(loop, n, d, h, w, [&](std::int64_t from, std::int32_t) {
      const float* x = slice_of(loop.x, from, first, count, stage);
      for (std::int64_t c = 0; c < count; ++c) sum[c] += x[c];
    });
    for (std::int64_t c = 0; c < count; ++c) sum[c] /= by;
    store_slice(loop.y, row, first, count, sum);
  }
}

// Calls body(row of y, its three windows) for the windows that hold voxel (z, y, x).
template <class Body>
inline void for_windows_of(const PoolLoop& g, std::int64_t n, const std::int64_t (&at)[3], const Body& body) {
  const Range d = windows_of(g, 0, at[0]), h = windows_of(g, 1, at[1]), w = windows_of(g, 2, at[2]);
  for (std::int64_t z = d.begin; z < d.end; ++z)
    for (std::int64_t y = h.begin; y < h.end; ++y)
      for (std::int64_t x = w.begin; x < w.end; ++x)
        body(((n * g.out[0] + z) * g.out[1] + y) * g.out[2] + x, z, y, x);
}

void gather_voxel(const PoolLoop& loop, std::int64_t n, const std::int64_t (&at)[3]) {
  alignas(64) float stage[kSlice], sum[kSlice];
  const std::int64_t position = (at[0] * loop.in[1] + at[1]) * loop.in[2] + at[2];
  const std::int64_t row = n * loop.in[0] * loop.in[1] * loop.in[2] + position;
  const std::int32_t self = static_cast<std::int32_t>(position);
  for (std::int64_t first = 0; first < loop.channels; first += kSlice) {
    const std::int64_t count = loop.channels - first < kSlice ? loop.channels - first : kSlice;
    for (std::int64_t c = 0; c < count; ++c) sum[c] = 0;
    for_windows_of(loop, n, at, [&](std::int64_t from, std::int64_t z, std::int64_t y, std::int64_t x) {
      const float* dy = slice_of(loop.y, from, first, count, stage);
      if (loop.max) {
        const std::int32_t* index = indices_of(loop, from, first);
        for (std::int64_t c = 0; c < count; ++c) sum[c] += index[c] == self ? dy[c] : 0.0f;
      } else {
        const float by = divisor(loop, window(loop, 0, z), window(loop, 1, y), window(loop, 2, x));
        for (std::int64_t c = 0; c < count; ++c) sum[c] += dy[c] / by;
      }
    });
    store_slice(loop.x, row, first, count, sum);
  }
}

}  // namespace

// A task is one line of windows along w.
void pool_forward(const PoolLoop& loop) {
  parallel_tasks(loop.batch * loop.out[0] * loop.out[1], loop.threads, [&](std::int64_t line, int) {
    const std::int64_t y = line % loop.out[1], z = line / loop.out[1] % loop.out[0];
    const std::int64_t n = line / loop.out[1] / loop.out[0];
    const Range d = window(loop, 0, z), h = window(loop, 1, y);
    for (std::int64_t x = 0; x < loop.out[2]; ++x) {
      const Range w = window(loop, 2, x);
      const std::int64_t row = line * loop.out[2] + x;
      if (loop.max)
        max_window(loop, n, row, d, h, w);
      else
        average_window(loop, n, row, d, h, w);
    }
  });
}

// A task is one line of input voxels along w. loop.x is dx, loop.y dy.
void pool_backward(const PoolLoop& loop) {
  parallel_tasks(loop.batch * loop.in[0] * loop.in[1], loop.threads, [&](std::int64_t line, int) {
    const std::int64_t y = line % loop.in[1], z = line / loop.in[1] % loop.in[0];
    const std::int64_t n = line / loop.in[1] / loop.in[0];
    for (std::int64_t x = 0; x < loop.in[2]; ++x) gather_voxel(loop, n, {z, y, x});
  });
}

}  // namespace tandem::TD_ISA_NAMESPACE

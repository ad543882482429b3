// Rows of a tensor as dense floats: F32 rows that lie densely are used in place, others pass through a small
// buffer that stays in cache. And the parallel loop over tasks. Internal linkage throughout (see vec.h).
#pragma once

#include <omp.h>

#include "core/backends/cpu/loops/loops.h"
#include "core/backends/cpu/loops/vec.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

// Runs body(task, slot) for task 0..count-1; slot < threads is the running thread's own number. Tasks write
// apart from each other, so their order is free.
template <class Body>
inline void parallel_tasks(std::int64_t count, int threads, const Body& body) {
  if (threads <= 1 || count <= 1) {
    for (std::int64_t task = 0; task < count; ++task) body(task, 0);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::int64_t task = 0; task < count; ++task) body(task, omp_get_thread_num());
}

// A chunk of rows [first, end), counted over the whole matrix, of one sample.
struct Chunk {
  std::int64_t task, sample, first, end;
  int slot;
};

// Runs body(chunk) for every chunk.
template <class Body>
inline void for_chunks(const Chunks& chunks, int threads, const Body& body) {
  parallel_tasks(chunks.samples * chunks.per_sample, threads, [&](std::int64_t task, int slot) {
    const std::int64_t sample = task / chunks.per_sample;
    const std::int64_t begin = task % chunks.per_sample * chunks.rows_per_chunk;
    const std::int64_t left = chunks.rows_per_sample - begin;
    const std::int64_t count = left < chunks.rows_per_chunk ? left : chunks.rows_per_chunk;
    const std::int64_t first = sample * chunks.rows_per_sample + begin;
    body(Chunk{task, sample, first, first + count, slot});
  });
}

inline std::int64_t element_bytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

inline void* row_pointer(const Matrix& m, std::int64_t row) {
  return static_cast<char*>(m.data) + row * m.pitch * element_bytes(m.dtype);
}

inline bool is_dense(const Matrix& m) { return m.pitch == m.channels; }

// The channels [first, first + count) of m.
inline Matrix columns(const Matrix& m, std::int64_t first, std::int64_t count) {
  Matrix part = m;
  if (m.data != nullptr) part.data = static_cast<char*>(m.data) + first * element_bytes(m.dtype);
  part.channels = count;
  return part;
}

// Dense floats of `count` rows from `row`: the tensor's own memory, or `buffer` filled.
inline const float* read_rows(const Matrix& m, std::int64_t row, std::int64_t count, float* buffer) {
  if (is_dense(m)) {
    const void* from = row_pointer(m, row);
    if (m.dtype == DType::kF32) return static_cast<const float*>(from);
    widen(from, m.dtype, buffer, count * m.channels);
    return buffer;
  }
  for (std::int64_t r = 0; r < count; ++r)
    widen(row_pointer(m, row + r), m.dtype, buffer + r * m.channels, m.channels);
  return buffer;
}

// Where to compute `count` rows from `row`: the tensor's own memory or `buffer`; then finish_rows brings them
// home.
inline float* target_rows(const Matrix& m, std::int64_t row, float* buffer) {
  return is_dense(m) && m.dtype == DType::kF32 ? static_cast<float*>(row_pointer(m, row)) : buffer;
}
inline void finish_rows(const Matrix& m, std::int64_t row, std::int64_t count, const float* values) {
  if (is_dense(m)) {
    void* to = row_pointer(m, row);
    if (values != to) narrow(values, to, m.dtype, count * m.channels);
    return;
  }
  for (std::int64_t r = 0; r < count; ++r)
    narrow(values + r * m.channels, row_pointer(m, row + r), m.dtype, m.channels);
}

// The element type of loops over all of these: their own 16-bit type where they share it and lie densely, so
// that values are converted in registers; else float, by way of read_rows and finish_rows.
inline DType common_type(const Matrix& a, const Matrix& b, const Matrix& c) {
  const bool alike = a.dtype == b.dtype && a.dtype == c.dtype;
  return alike && is_dense(a) && is_dense(b) && is_dense(c) ? a.dtype : DType::kF32;
}

// Calls body.operator()<T>() for the element type.
template <class Body>
inline void with_type(DType dtype, const Body& body) {
  if (dtype == DType::kF16)
    body.template operator()<Half>();
  else if (dtype == DType::kBF16)
    body.template operator()<BFloat16>();
  else
    body.template operator()<float>();
}

// read_rows, target_rows and finish_rows for T of common_type; `buffer` is for T = float alone.
template <class T>
inline const T* read_rows_as(const Matrix& m, std::int64_t row, std::int64_t count, float* buffer) {
  if constexpr (sizeof(T) == sizeof(float))
    return read_rows(m, row, count, buffer);
  else
    return static_cast<const T*>(row_pointer(m, row));
}
template <class T>
inline T* target_rows_as(const Matrix& m, std::int64_t row, float* buffer) {
  if constexpr (sizeof(T) == sizeof(float))
    return target_rows(m, row, buffer);
  else
    return static_cast<T*>(row_pointer(m, row));
}
template <class T>
inline void finish_rows_as(const Matrix& m, std::int64_t row, std::int64_t count, const T* values) {
  if constexpr (sizeof(T) == sizeof(float)) finish_rows(m, row, count, values);
}

}  // namespace
}  // namespace tandem::TD_ISA_NAMESPACE

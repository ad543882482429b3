// What cpu_loops*.cpp share: tensors as the loops' plain structs, the cut into chunks, scratch. Private to
// these files.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "core/backends/cpu/loops/loops.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/tensor/tensor.h"

namespace tandem::loop_views {

// Elements of a chunk: long enough to hide the hand-out, short enough to balance two threads on a small
// tensor.
inline constexpr std::int64_t kChunkElements = 32768;
inline constexpr std::int64_t kNarrowChannels = 512;  // columns.h's kMaxChannels

inline Matrix matrix_of(const Tensor& t) {
  if (!t.defined()) return {nullptr, DType::kF32, 0, 0, 0};
  return {t.raw(), t.dtype(), t.rows(), t.channels(), t.channels() == 0 ? 0 : t.channel_pitch()};
}

// matrix_of a tensor that the float loops take.
inline Matrix float_matrix(const Tensor& t) {
  if (t.defined() && t.dtype() != DType::kF32 && !is_16_bit_float(t.dtype()))
    throw Error(ErrorKind::kShape,
                fmt::format("[cpu] dtype: got {}, expected F32, F16 or BF16", to_string(t)),
                "Compute F64 on the reference device.");
  return matrix_of(t);
}

// The channels [first, first + count) of m.
inline Matrix slice(Matrix m, std::int64_t first, std::int64_t count) {
  if (m.data != nullptr)
    m.data = static_cast<char*>(m.data) + first * static_cast<std::int64_t>(size_of(m.dtype));
  m.channels = count;
  return m;
}

// Calls body(first, count) for pieces of at most `most` of the channels.
template <class Body>
void for_channels(std::int64_t channels, std::int64_t most, const Body& body) {
  for (std::int64_t first = 0; first < channels; first += most) body(first, std::min(most, channels - first));
}

// Chunks of about kChunkElements, whole multiples of `grain` rows.
inline Chunks chunks_of(std::int64_t samples, std::int64_t rows, std::int64_t channels,
                        std::int64_t grain = 1) {
  const std::int64_t wanted = std::max<std::int64_t>(1, kChunkElements / std::max<std::int64_t>(1, channels));
  const std::int64_t per_chunk = (wanted + grain - 1) / grain * grain;
  const std::int64_t per_sample = samples > 0 ? rows / samples : 0;
  return {samples, per_sample, per_chunk, (per_sample + per_chunk - 1) / per_chunk};
}
inline std::int64_t count(const Chunks& c) { return c.samples * c.per_sample; }

// Uninitialised.
template <class T>
std::unique_ptr<T[]> scratch(std::int64_t n) {
  return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(std::max<std::int64_t>(1, n)));
}

}  // namespace tandem::loop_views

// Elementwise loops over the functors of core/kernels, and dropout.
#pragma once

#include "core/backends/cuda/kernels/elements.h"
#include "core/base/philox.h"
#include "core/kernels/elementwise.h"

namespace tandem::cuda {

enum class Broadcast : std::int32_t { kFull, kPerChannel, kSingle };

// T: the type of full inputs; others are read by their dtype.
template <class T>
struct MapInput {
  const void* data = nullptr;
  std::int64_t pitch = 0;
  DType dtype = DType::kF32;
  Broadcast broadcast = Broadcast::kFull;

  TD_HD float read(std::int64_t row, std::int64_t c) const {
    if (broadcast == Broadcast::kFull) return widen(static_cast<const T*>(data)[row * pitch + c]);
    return read_as(data, dtype, broadcast == Broadcast::kPerChannel ? c : 0);
  }
};
template <>
struct MapInput<Mixed> {
  const void* data = nullptr;
  std::int64_t pitch = 0;
  DType dtype = DType::kF32;
  Broadcast broadcast = Broadcast::kFull;

  TD_HD float read(std::int64_t row, std::int64_t c) const {
    const bool full = broadcast == Broadcast::kFull;
    return read_as(data, dtype, full ? row * pitch + c : broadcast == Broadcast::kPerChannel ? c : 0);
  }
};

// out (+)= F(in...). Packed operands of one shape may be given as rows of one channel.
template <class F, class T>
struct Map {
  std::int64_t count, channels;
  bool accumulate;
  kernels::MapParams params;
  MapInput<T> in[F::kArity];
  Elements<T> out;

  TD_HD void operator()(std::int64_t i) const {
    const Place at = split(i, channels);
    const float first = in[0].read(at.row, at.column);
    float value;
    if constexpr (F::kArity == 1)
      value = F::apply(first, params);
    else if constexpr (F::kArity == 2)
      value = F::apply(first, in[1].read(at.row, at.column), params);
    else
      value = F::apply(first, in[1].read(at.row, at.column), in[2].read(at.row, at.column), params);
    if (accumulate) value = out.read(at.row, at.column) + value;
    out.write(at.row, at.column, value);
  }
};

// y = x times a drawn mask: DropoutArgs. An index is one block of Philox, four elements.
template <class T>
struct Dropout {
  std::int64_t count, elements;
  std::uint32_t key[2], counter[4], threshold;
  float scale;
  const T* x;
  T* y;

  TD_HD void operator()(std::int64_t i) const {
    std::uint32_t words[4] = {static_cast<std::uint32_t>(i), counter[1], counter[2], counter[3]};
    philox4x32_words(key[0], key[1], words);
    for (int k = 0; k < 4; ++k) {
      const std::int64_t at = 4 * i + k;
      if (at >= elements) return;
      y[at] = words[k] >= threshold ? narrow<T>(widen(x[at]) * scale) : narrow<T>(0.0f);
    }
  }
};

}  // namespace tandem::cuda

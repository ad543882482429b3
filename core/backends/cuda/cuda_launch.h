// What the files of the CUDA backend share: kernels launched by the type of their functor, tensors as
// elements, scratch memory of the device. Private to these files.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/backends/cuda/cuda_memory.h"
#include "core/backends/cuda/kernel_list.h"
#include "core/base/error.h"
#include "core/tensor/tensor.h"

namespace tandem::cuda {

inline std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The kernel of F in the queue: functor.count indices.
template <class F>
requires(!BlockFunctor<F>) void launch(DeviceApi& api, const F& functor) {
  constexpr std::int32_t kThreads = 256;
  if (functor.count == 0) return;
  const Grid grid{ceil_divide(functor.count, kThreads), kThreads};
  require(api, api.launch(kernel_id<F>(), grid, &functor, sizeof functor),
          kKernelNames[kernel_id<F>()].data());
}

// `blocks` blocks of kBlockThreads threads.
template <class F>
requires BlockFunctor<F>
void launch(DeviceApi& api, std::int64_t blocks, const F& functor) {
  if (blocks == 0) return;
  require(api, api.launch(kernel_id<F>(), {blocks, kBlockThreads}, &functor, sizeof functor),
          kKernelNames[kernel_id<F>()].data());
}

// Device memory until the end of the object; what is queued by then still has it, for the queue is one.
template <class T>
class Scratch {
 public:
  Scratch(const Device& device, std::int64_t count)
      : storage_(device, static_cast<std::size_t>(count) * sizeof(T), MemoryCategory::kWorkspace) {}
  // With a copy of `values`.
  Scratch(const Device& device, const std::vector<T>& values)
      : Scratch(device, static_cast<std::int64_t>(values.size())) {
    storage_.allocator().memory().copy_from_host(storage_.data(), values.data(), values.size() * sizeof(T));
  }

  T* data() const { return static_cast<T*>(storage_.data()); }
  // Waits for the queue.
  std::vector<T> to_host() const {
    std::vector<T> values(storage_.bytes() / sizeof(T));
    storage_.allocator().memory().copy_to_host(values.data(), storage_.data(), storage_.bytes());
    return values;
  }

 private:
  Storage storage_;
};

inline void require_float(const Tensor& t) {
  if (t.dtype() != DType::kF32 && !is_16_bit_float(t.dtype()))
    throw Error(ErrorKind::kShape,
                fmt::format("[cuda] dtype: got {}, expected F32, F16 or BF16", to_string(t)),
                "Compute F64 on the reference device.");
}

// Of an undefined tensor null.
template <class T>
Elements<T> elements(const Tensor& t) {
  if (!t.defined()) return {};
  if constexpr (std::is_same_v<T, Mixed>)
    return {t.raw(), t.channel_pitch(), t.dtype()};
  else
    return {t.data<T>(), t.channel_pitch()};
}

template <class T>
T* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

// Calls body.operator()<T>() with the type of a float tensor.
template <class Body>
void with_type(const Tensor& t, const Body& body) {
  require_float(t);
  if (t.dtype() == DType::kF32)
    body.template operator()<float>();
  else if (t.dtype() == DType::kF16)
    body.template operator()<Half>();
  else
    body.template operator()<BFloat16>();
}

// As with_type, of float tensors that have one dtype; else with Mixed. Undefined ones do not count.
template <class Body>
void with_type_or_mixed(std::initializer_list<Tensor> tensors, const Body& body) {
  const Tensor& first = *tensors.begin();
  for (const Tensor& t : tensors) {
    if (!t.defined()) continue;
    require_float(t);
    if (t.dtype() != first.dtype()) return body.template operator()<Mixed>();
  }
  with_type(first, body);
}

// The smallest power of two that is at least `channels`, up to a warp.
inline std::int32_t width_of(std::int64_t channels) {
  std::int32_t width = 1;
  while (width < kWarpThreads && width < channels) width *= 2;
  return width;
}

// 32 rows per thread, 128 where there is enough for all multiprocessors.
inline ColumnChunks column_chunks(std::int64_t runs, std::int64_t rows, std::int64_t channels) {
  ColumnChunks g{};
  g.width = width_of(channels);
  g.runs = runs;
  g.rows_per_run = rows / runs;
  const std::int64_t lanes = kBlockThreads / g.width;
  g.rows_per_chunk = lanes * (rows * channels < (std::int64_t{1} << 24) ? 32 : 128);
  g.rows_per_chunk = std::max(std::int64_t{1}, std::min(g.rows_per_chunk, g.rows_per_run));
  g.chunks = ceil_divide(g.rows_per_run, g.rows_per_chunk);
  g.channels = channels;
  g.tiles = ceil_divide(channels, g.width);
  return g;
}
inline std::int64_t pieces(const ColumnChunks& g) { return g.runs * g.chunks; }
inline std::int64_t blocks(const ColumnChunks& g) { return pieces(g) * g.tiles; }

inline RowGroups row_groups(const Tensor& x, std::int32_t width) { return {x.rows(), x.channels(), width}; }
inline std::int64_t blocks(const RowGroups& g) { return ceil_divide(g.rows, kBlockThreads / g.width); }

}  // namespace tandem::cuda

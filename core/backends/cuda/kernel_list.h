// The one list of the CUDA kernels: a functor type per row, numbered in order. The plug-in compiles each of
// them, the emulator runs them, the backend finds a number by type. Not here: what they compute (kernels/).
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "core/backends/cuda/kernels/columns.h"
#include "core/backends/cuda/kernels/layer_norm.h"
#include "core/backends/cuda/kernels/loss_sigmoid.h"
#include "core/backends/cuda/kernels/loss_softmax.h"
#include "core/backends/cuda/kernels/map.h"
#include "core/backends/cuda/kernels/move.h"
#include "core/backends/cuda/kernels/norm.h"
#include "core/backends/cuda/kernels/norm_backward.h"
#include "core/backends/cuda/kernels/pool.h"
#include "core/backends/cuda/kernels/softmax.h"
#include "core/backends/cuda/kernels/step.h"
#include "core/kernels/table.h"

// Rows for each type of elements; TD_CUDA_ROW is defined where the list is expanded.
#define TD_CUDA_TYPED(K) TD_CUDA_ROW(K<float>) TD_CUDA_ROW(K<Half>) TD_CUDA_ROW(K<BFloat16>)
#define TD_CUDA_TYPED_OR_MIXED(K) TD_CUDA_TYPED(K) TD_CUDA_ROW(K<Mixed>)
#define TD_CUDA_BYTES(K)       \
  TD_CUDA_ROW(K<std::uint8_t>) \
  TD_CUDA_ROW(K<std::uint16_t>) TD_CUDA_ROW(K<std::uint32_t>) TD_CUDA_ROW(K<std::uint64_t>)
#define TD_CUDA_MAP(F)                   \
  TD_CUDA_ROW(Map<kernels::F, float>)    \
  TD_CUDA_ROW(Map<kernels::F, Half>)     \
  TD_CUDA_ROW(Map<kernels::F, BFloat16>) \
  TD_CUDA_ROW(Map<kernels::F, Mixed>)
#define TD_CUDA_ACTIVATED_AS(K, T)   \
  TD_CUDA_ROW(K<T, kNoActivation>)   \
  TD_CUDA_ROW(K<T, kFusedRelu>)      \
  TD_CUDA_ROW(K<T, kFusedLeakyRelu>) \
  TD_CUDA_ROW(K<T, kAnyActivation>)
#define TD_CUDA_ACTIVATED(K) \
  TD_CUDA_ACTIVATED_AS(K, float) TD_CUDA_ACTIVATED_AS(K, Half) TD_CUDA_ACTIVATED_AS(K, BFloat16)

#define TD_CUDA_KERNELS                               \
  TD_MAP_KERNELS(TD_CUDA_MAP)                         \
  TD_CUDA_TYPED(Dropout)                              \
  TD_CUDA_TYPED_OR_MIXED(ColumnSums)                  \
  TD_CUDA_ROW(SumChunks)                              \
  TD_CUDA_BYTES(Transpose)                            \
  TD_CUDA_BYTES(MoveBox)                              \
  TD_CUDA_TYPED_OR_MIXED(DepthToSpace)                \
  TD_CUDA_TYPED(Resize)                               \
  TD_CUDA_TYPED(MaxPool)                              \
  TD_CUDA_TYPED(AveragePool)                          \
  TD_CUDA_TYPED(PoolGradient)                         \
  TD_CUDA_TYPED_OR_MIXED(Softmax)                     \
  TD_CUDA_TYPED_OR_MIXED(SoftmaxGradient)             \
  TD_CUDA_TYPED(NormMoments)                          \
  TD_CUDA_ROW(NormFinish)                             \
  TD_CUDA_ROW(NormFixed)                              \
  TD_CUDA_ACTIVATED(NormApply)                        \
  TD_CUDA_ACTIVATED(NormGradientSums)                 \
  TD_CUDA_ROW(NormGradientFinish)                     \
  TD_CUDA_ACTIVATED(NormGradient)                     \
  TD_CUDA_ACTIVATED(LayerNorm)                        \
  TD_CUDA_ACTIVATED(LayerNormGradient)                \
  TD_CUDA_TYPED(SoftmaxLossSums)                      \
  TD_CUDA_TYPED(SoftmaxLossGradient)                  \
  TD_CUDA_TYPED(SigmoidLossSums)                      \
  TD_CUDA_TYPED(SigmoidLossGradient)                  \
  TD_CUDA_ROW(GradientSums)                           \
  TD_CUDA_ROW(OptimizerUpdate<SgdPlain>)              \
  TD_CUDA_ROW(OptimizerUpdate<SgdMomentum>)           \
  TD_CUDA_ROW(OptimizerUpdate<AdamBoth>)              \
  TD_CUDA_ROW(OptimizerUpdate<RmsProp<false, false>>) \
  TD_CUDA_ROW(OptimizerUpdate<RmsProp<false, true>>)  \
  TD_CUDA_ROW(OptimizerUpdate<RmsProp<true, false>>)  \
  TD_CUDA_ROW(OptimizerUpdate<RmsProp<true, true>>)

namespace tandem::cuda {

template <class... Functors>
struct KernelTypes {
  static constexpr std::int32_t kCount = sizeof...(Functors);
};
struct KernelListBegin {};

template <class List>
struct WithoutFirst;
template <class First, class... Rest>
struct WithoutFirst<KernelTypes<First, Rest...>> {
  using Type = KernelTypes<Rest...>;
};

#define TD_CUDA_ROW(...) , __VA_ARGS__
using KernelList = WithoutFirst<KernelTypes<KernelListBegin TD_CUDA_KERNELS>>::Type;
#undef TD_CUDA_ROW

// Whether F runs by blocks of threads that share memory, else an index at a time.
template <class F>
concept BlockFunctor = requires {
  typename F::Shared;
};

template <class F, class... Functors>
constexpr std::int32_t number_in(KernelTypes<Functors...>) {
  std::int32_t number = 0;
  bool found = false;
  ((found = found || std::is_same_v<F, Functors>, number += found ? 0 : 1), ...);
  return number;
}

// The number of F in the list.
template <class F>
constexpr std::int32_t kernel_id() {
  constexpr std::int32_t id = number_in<F>(KernelList{});
  static_assert(id < KernelList::kCount, "a functor that is not in TD_CUDA_KERNELS");
  static_assert(std::is_trivially_copyable_v<F>);
  return id;
}

inline constexpr std::string_view kKernelNames[] = {
#define TD_CUDA_ROW(...) #__VA_ARGS__,
    TD_CUDA_KERNELS
#undef TD_CUDA_ROW
};
static_assert(std::size(kKernelNames) == KernelList::kCount);

// FNV-1a of the list's text and of the functors' sizes: equal in a program and its plug-in.
template <class... Functors>
constexpr std::uint64_t hash_of(KernelTypes<Functors...>) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3u; };
  for (const std::string_view row : kKernelNames) {
    for (const char c : row) mix(static_cast<unsigned char>(c));
    mix(0xffu);
  }
  (mix(sizeof(Functors)), ...);
  return hash;
}
constexpr std::uint64_t kernel_list_hash() { return hash_of(KernelList{}); }

}  // namespace tandem::cuda

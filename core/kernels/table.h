// The one list of elementwise functors: X(Functor) per row, arity at the functor. A backend expands it into
// its loops; MapKernel names the rows at run time; the ABI version of a plug-in is the hash of this list.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/kernels/activation.h"
#include "core/kernels/smooth_activation.h"

#define TD_MAP_KERNELS(X) \
  X(Copy)                 \
  X(Scale)                \
  X(Relu)                 \
  X(ReluGrad)             \
  X(LeakyRelu)            \
  X(LeakyReluGrad)        \
  X(Prelu)                \
  X(PreluGrad)            \
  X(NegativePart)         \
  X(Elu)                  \
  X(EluGrad)              \
  X(Sigmoid)              \
  X(SigmoidGrad)          \
  X(Tanh)                 \
  X(TanhGrad)             \
  X(Softplus)             \
  X(SoftplusGrad)         \
  X(Silu)                 \
  X(SiluGrad)             \
  X(Gelu)                 \
  X(GeluGrad)             \
  X(GeluTanh)             \
  X(GeluTanhGrad)         \
  X(Add)                  \
  X(Mul)

namespace tandem {

enum class MapKernel : std::uint8_t {
#define TD_MAP_ENUM(F) k##F,
  TD_MAP_KERNELS(TD_MAP_ENUM)
#undef TD_MAP_ENUM
};

// Calls visit.template operator()<Functor>() for the row `kernel`.
template <class Visit>
void visit_map_kernel(MapKernel kernel, Visit&& visit) {
  switch (kernel) {
#define TD_MAP_CASE(F)  \
  case MapKernel::k##F: \
    return visit.template operator()<kernels::F>();
    TD_MAP_KERNELS(TD_MAP_CASE)
#undef TD_MAP_CASE
  }
}

inline constexpr std::string_view kMapKernelNames[] = {
#define TD_MAP_NAME(F) #F,
    TD_MAP_KERNELS(TD_MAP_NAME)
#undef TD_MAP_NAME
};

// FNV-1a of the list's text.
constexpr std::uint64_t kernel_table_hash() {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::string_view row : kMapKernelNames) {
    for (const char c : row) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    hash = (hash ^ 0xffu) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace tandem

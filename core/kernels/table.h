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
  X(Blend)                \
  X(Add)                  \
  X(Mul)                  \
  X(SquaredError)         \
  X(SquaredErrorGrad)     \
  X(AbsoluteError)        \
  X(AbsoluteErrorGrad)    \
  X(SmoothError)          \
  X(SmoothErrorGrad)

// Activations that other kernels fuse (norms): each a functor above and its FGrad.
#define TD_ACTIVATIONS(X) \
  X(Relu) X(LeakyRelu) X(Elu) X(Gelu) X(GeluTanh) X(Silu) X(Sigmoid) X(Tanh) X(Softplus)

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

enum class Activation : std::uint8_t {
  kNone,
#define TD_ACTIVATION_ENUM(F) k##F,
  TD_ACTIVATIONS(TD_ACTIVATION_ENUM)
#undef TD_ACTIVATION_ENUM
};

// Calls visit.template operator()<Functor, its gradient's functor>().
template <class Visit>
void visit_activation(Activation activation, const Visit& visit) {
  switch (activation) {
    case Activation::kNone:
      return visit.template operator()<kernels::Copy, kernels::CopyGrad>();
#define TD_ACTIVATION_CASE(F) \
  case Activation::k##F:      \
    return visit.template operator()<kernels::F, kernels::F##Grad>();
      TD_ACTIVATIONS(TD_ACTIVATION_CASE)
#undef TD_ACTIVATION_CASE
  }
}

constexpr MapKernel kActivationKernels[][2] = {{MapKernel::kCopy, MapKernel::kCopy},
#define TD_ACTIVATION_KERNELS(F) {MapKernel::k##F, MapKernel::k##F##Grad},
                                               TD_ACTIVATIONS(TD_ACTIVATION_KERNELS)
#undef TD_ACTIVATION_KERNELS
};
// The rows of an activation and of its gradient (inputs dy, x); kNone has the first alone.
TD_HD MapKernel activation_kernel(Activation activation) {
  return kActivationKernels[static_cast<int>(activation)][0];
}
TD_HD MapKernel activation_gradient_kernel(Activation activation) {
  return kActivationKernels[static_cast<int>(activation)][1];
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

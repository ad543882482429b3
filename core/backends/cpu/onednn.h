// oneDNN behind plain pointers: primitives cached by geometry, dtypes, threads and ISA, strict FP32,
// workspace of our allocator. Knows packed channels-last buffers only; pitches, conversions and engine choice
// are conv.h's subject.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/backends/cpu/isa.h"
#include "core/backends/kernel_args.h"

namespace tandem {

enum class ConvPass { kForward, kBackwardData, kBackwardWeights };

struct OneDnnConv {
  ConvPass pass = ConvPass::kForward;
  ConvGeometry geometry;
  DType operand = DType::kF32;  // of x, dy and w: F32 or BF16
  DType result = DType::kF32;   // of y or dx: F32 or BF16; the weight gradient is always F32
  bool bias = false;            // kForward only; F32 [K]
};

// c [m,n] (+)= op(a) op(b). Leading dimensions are the elements between stored rows.
struct OneDnnGemm {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  DType operand = DType::kF32, result = DType::kF32;
};

// Whether every axis has a stride of at most the kernel's size, no more padding than half of the dilated
// kernel, (k - 1) d / 2, and an input of at least the dilated kernel plus stride - 1. On others the kernels
// that oneDNN 3.2 compiles for AVX-512 and AMX are wrong: gradients that nothing adds to stay unset memory,
// outputs miss terms, and writes pass the end of buffers (tests/cpu/conv_windows_test.cpp).
bool has_usual_window(const ConvGeometry& g);

// Every method throws Error (kResource when out of memory, else kInternal) with the geometry where oneDNN
// fails. Convolutions without a usual window go to oneDNN's implementations by matmul or by loops.
class OneDnn {
 public:
  // Fixes oneDNN's ISA to `target` for the process (the first one made decides), so that ONEDNN_MAX_CPU_ISA
  // of the environment has no say.
  explicit OneDnn(const CpuTarget& target);
  ~OneDnn();

  // Weights [K, taps, C/groups] of the operand dtype in the order that the primitive wants.
  std::size_t packed_bytes(const OneDnnConv& conv);
  void pack_weights(const OneDnnConv& conv, const void* weights, void* packed);

  // Overwrite y, dx.
  void forward(const OneDnnConv& conv, const void* x, const void* packed, const float* bias, void* y);
  void backward_data(const OneDnnConv& conv, const void* dy, const void* packed, void* dx);
  // dw [K, taps, C/groups] += the gradient, F32.
  void backward_weights(const OneDnnConv& conv, const void* x, const void* dy, float* dw);

  void gemm(const OneDnnGemm& gemm, const void* a, const void* b, void* c);

  std::size_t cached_primitives() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "[2, 32, 48, 48, 48] -> [2, 16, 48, 48, 48], kernel [3, 3, 3], stride ..., padding ..., dilation ...,
// groups 1"
std::string to_string(const ConvGeometry& g);

}  // namespace tandem

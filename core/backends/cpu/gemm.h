// Matmul of the CPU backend: takes tensors, asks conv_engine.h which engine, and stages 16-bit operands for
// it. Means what Backend::gemm means.
#pragma once

#include "core/backends/cpu/conv_context.h"
#include "core/backends/cpu/conv_engine.h"
#include "core/tensor/tensor.h"

namespace tandem {

class CpuGemm {
 public:
  // Bytes of staged operands at a time, besides a whole b.
  static constexpr std::int64_t kSlabBytes = 32 << 20;

  explicit CpuGemm(ConvContext& context, std::int64_t slab_bytes = kSlabBytes)
      : context_(&context), slab_bytes_(slab_bytes) {}

  void gemm(const GemmArgs& args, const Tensor& a, const Tensor& b, const Tensor& c) const;
  // On a given engine; the caller makes sure that it can (tests, benchmarks).
  void gemm(Engine engine, const GemmArgs& args, const Tensor& a, const Tensor& b, const Tensor& c) const;

 private:
  void direct_rows(const MatmulShape& shape, const Tensor& a, const Tensor& b, const Tensor& c) const;
  void direct_gradient(const MatmulShape& shape, const Tensor& a, const Tensor& b, const Tensor& c) const;
  // a [M,K] in blocks of rows against the whole of b.
  void staged_rows(Engine engine, const MatmulShape& shape, const Tensor& a, const Tensor& b,
                   const Tensor& c) const;
  // a [K,M] in blocks of K, summed in FP32.
  void staged_reduction(Engine engine, const MatmulShape& shape, const Tensor& a, const Tensor& b,
                        const Tensor& c) const;

  ConvContext* context_;
  std::int64_t slab_bytes_;
};

}  // namespace tandem

// Convolution of the CPU backend: takes tensors, asks conv_engine.h which engine, and prepares what that
// engine wants (packed weights, staged slabs). The methods mean what Backend's methods of the same name mean.
#pragma once

#include "core/backends/cpu/conv_context.h"
#include "core/backends/cpu/conv_engine.h"
#include "core/tensor/tensor.h"

namespace tandem {

class CpuConv {
 public:
  // Bytes of staged operands at a time.
  static constexpr std::int64_t kSlabBytes = 32 << 20;

  explicit CpuConv(ConvContext& context, std::int64_t slab_bytes = kSlabBytes)
      : context_(&context), slab_bytes_(slab_bytes) {}

  void forward(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias,
               const Tensor& y) const;
  void backward_data(const ConvGeometry& g, const Tensor& dy, const Tensor& w, const Tensor& dx) const;
  void backward_weights(const ConvGeometry& g, const Tensor& x, const Tensor& dy, const Tensor& dw) const;

  // As above on a given engine; the caller makes sure that it can (tests, benchmarks).
  void forward(Engine engine, const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias,
               const Tensor& y) const;
  void backward_data(Engine engine, const ConvGeometry& g, const Tensor& dy, const Tensor& w,
                     const Tensor& dx) const;
  void backward_weights(Engine engine, const ConvGeometry& g, const Tensor& x, const Tensor& dy,
                        const Tensor& dw) const;

 private:
  std::shared_ptr<const Scratch> direct_weights(const ConvGeometry& g, bool data_gradient,
                                                const Tensor& w) const;
  std::shared_ptr<const Scratch> tile_weights(const ConvGeometry& g, bool data_gradient,
                                              const Tensor& w) const;
  std::shared_ptr<const Scratch> onednn_weights(Engine engine, const OneDnnConv& conv, const ConvGeometry& g,
                                                const Tensor& w) const;
  // The dtype that oneDNN computes in.
  DType element_of(Engine engine, DType tensor) const;

  ConvContext* context_;
  std::int64_t slab_bytes_;
};

}  // namespace tandem

// The CUDA backend: tensors become the plain structs of the kernels and of the vendor calls, in the one queue
// of a DeviceApi. C++ alone, no CUDA header; what the methods compute is said in core/backends/backend.h.
#pragma once

#include "core/backends/backend.h"
#include "core/backends/cuda/device_api.h"

namespace tandem::cuda {

// Needs an allocator of the device (register_allocator over CudaMemory). `api` must outlive the backend.
// Reads back to the host: the sums of a loss and its seed, the gradient check, and whether weights
// overflowed.
class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(DeviceApi& api, int index = 0) : api_(api), device_{DeviceKind::kCuda, index} {}

  Device device() const override { return device_; }

  // cuda_backend.cpp
  void gemm(const GemmArgs& args, const Tensor& a, const Tensor& b, const Tensor& c) override;
  void conv_forward(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias,
                    const Tensor& y) override;
  void conv_backward_data(const ConvGeometry& g, const Tensor& dy, const Tensor& w,
                          const Tensor& dx) override;
  void conv_backward_weights(const ConvGeometry& g, const Tensor& x, const Tensor& dy,
                             const Tensor& dw) override;
  void map(const MapArgs& args, std::span<const Tensor> inputs, const Tensor& out) override;
  void reduce_rows(const Tensor& x, const Tensor& y, const Tensor& out) override;
  void dropout(const DropoutArgs& args, const Tensor& x, const Tensor& y) override;

  // cuda_move.cpp
  void reorder(const Tensor& x, const Tensor& y, bool to_logical) override;
  void move(const MoveArgs& args, const Tensor& x, const Tensor& y) override;
  void resize(const ResizeArgs& args, const Tensor& x, const Tensor& y) override;
  void depth_to_space(const ConvGeometry& g, const Tensor& blocks, const Tensor& bias, const Tensor& volume,
                      bool inverse) override;
  void pool_forward(const PoolArgs& args, const Tensor& x, const Tensor& y, const Tensor& indices) override;
  void pool_backward(const PoolArgs& args, const Tensor& dy, const Tensor& indices,
                     const Tensor& dx) override;

  // cuda_norm.cpp
  void norm_forward(const NormArgs& args, const Tensor& x, const NormTensors& t, const Tensor& y) override;
  void norm_backward(const NormArgs& args, const Tensor& dy, const Tensor& x, const NormTensors& t,
                     const Tensor& dx) override;

  // cuda_loss.cpp
  void softmax_forward(const SoftmaxArgs& args, const Tensor& x, const Tensor& y) override;
  void softmax_backward(const SoftmaxArgs& args, const Tensor& dy, const Tensor& y,
                        const Tensor& dx) override;
  void segmentation_loss(const SegmentationLossArgs& args, const LossTensors& t, const Tensor& loss) override;
  void segmentation_loss_backward(const SegmentationLossArgs& args, const LossTensors& t, const Tensor& seed,
                                  const Tensor& dlogits) override;

  // cuda_step.cpp
  void gradient_check(const Tensor& gradient, const StepState& state, GradientCheck& result) override;
  void optimizer_step(const OptimizerArgs& args, StepState& state) override;

 private:
  DeviceApi& api_;
  Device device_;
};

}  // namespace tandem::cuda

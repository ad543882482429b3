// The reference backend's class, for the files of this folder: each method is defined in the file of its
// subject. What the methods compute is said in core/backends/backend.h.
#pragma once

#include <vector>

#include "core/backends/backend.h"

namespace tandem {

class ReferenceBackend final : public Backend {
 public:
  Device device() const override { return kReferenceDevice; }

  // matrix.cpp
  void gemm(const GemmArgs& args, const Tensor& a, const Tensor& b, const Tensor& c) override;
  void reorder(const Tensor& x, const Tensor& y, bool to_logical) override;
  void depth_to_space(const ConvGeometry& g, const Tensor& blocks, const Tensor& bias, const Tensor& volume,
                      bool inverse) override;

  // move.cpp
  void move(const MoveArgs& args, const Tensor& x, const Tensor& y) override;
  void resize(const ResizeArgs& args, const Tensor& x, const Tensor& y) override;
  void dropout(const DropoutArgs& args, const Tensor& x, const Tensor& y) override;

  // conv.cpp
  void conv_forward(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias,
                    const Tensor& y) override;
  void conv_backward_data(const ConvGeometry& g, const Tensor& dy, const Tensor& w,
                          const Tensor& dx) override;
  void conv_backward_weights(const ConvGeometry& g, const Tensor& x, const Tensor& dy,
                             const Tensor& dw) override;
  void pool_forward(const PoolArgs& args, const Tensor& x, const Tensor& y, const Tensor& indices) override;
  void pool_backward(const PoolArgs& args, const Tensor& dy, const Tensor& indices,
                     const Tensor& dx) override;

  // elementwise.cpp
  void map(const MapArgs& args, std::span<const Tensor> inputs, const Tensor& out) override;
  void reduce_rows(const Tensor& x, const Tensor& y, const Tensor& out) override;

  // norm.cpp
  void norm_forward(const NormArgs& args, const Tensor& x, const NormTensors& t, const Tensor& y) override;
  void norm_backward(const NormArgs& args, const Tensor& dy, const Tensor& x, const NormTensors& t,
                     const Tensor& dx) override;

  // softmax.cpp
  void softmax_forward(const SoftmaxArgs& args, const Tensor& x, const Tensor& y) override;
  void softmax_backward(const SoftmaxArgs& args, const Tensor& dy, const Tensor& y,
                        const Tensor& dx) override;

  // loss.cpp
  void segmentation_loss(const SegmentationLossArgs& args, const LossTensors& t, const Tensor& loss) override;
  void segmentation_loss_backward(const SegmentationLossArgs& args, const LossTensors& t, const Tensor& seed,
                                  const Tensor& dlogits) override;

  // optimizer.cpp
  void gradient_check(const Tensor& gradient, const StepState& state, GradientCheck& result) override;
  void optimizer_step(const OptimizerArgs& args, StepState& state) override;
};

// A tensor as its matrix of rows x channels, in double.
struct ReferenceMatrix {
  explicit ReferenceMatrix(const Tensor& tensor)
      : data(tensor.data<double>()), pitch(tensor.channel_pitch()) {}
  double& operator()(std::int64_t row, std::int64_t channel) const { return data[row * pitch + channel]; }

  double* data;
  std::int64_t pitch;
};

// log softmax of one row: x - max - log sum exp(x - max).
std::vector<double> log_softmax(const ReferenceMatrix& x, std::int64_t row, std::int64_t channels);

}  // namespace tandem

// The CPU backend: convolution and matmul to conv.h and gemm.h, everything else to the loops of the process's
// level.
#include "core/backends/cpu/cpu_backend.h"

#include "core/backends/cpu/conv.h"
#include "core/backends/cpu/cpu_loops.h"
#include "core/backends/cpu/gemm.h"

namespace tandem {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuTarget& target)
      : context_(target), conv_(context_), gemm_(context_), loops_(cpu_loops(target.isa)) {}

  Device device() const override { return kCpuDevice; }

  void gemm(const GemmArgs& args, const Tensor& a, const Tensor& b, const Tensor& c) override {
    gemm_.gemm(args, a, b, c);
  }
  void conv_forward(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias,
                    const Tensor& y) override {
    conv_.forward(g, x, w, bias, y);
  }
  void conv_backward_data(const ConvGeometry& g, const Tensor& dy, const Tensor& w,
                          const Tensor& dx) override {
    conv_.backward_data(g, dy, w, dx);
  }
  void conv_backward_weights(const ConvGeometry& g, const Tensor& x, const Tensor& dy,
                             const Tensor& dw) override {
    conv_.backward_weights(g, x, dy, dw);
  }

  void map(const MapArgs& args, std::span<const Tensor> inputs, const Tensor& out) override {
    loops_.map(args, inputs, out);
  }
  void reduce_rows(const Tensor& x, const Tensor& y, const Tensor& out) override {
    loops_.reduce_rows(x, y, out);
  }
  void reorder(const Tensor& x, const Tensor& y, bool to_logical) override {
    loops_.reorder(x, y, to_logical);
  }
  void move(const MoveArgs& args, const Tensor& x, const Tensor& y) override { loops_.move(args, x, y); }
  void resize(const ResizeArgs& args, const Tensor& x, const Tensor& y) override {
    loops_.resize(args, x, y);
  }
  void dropout(const DropoutArgs& args, const Tensor& x, const Tensor& y) override {
    loops_.dropout(args, x, y);
  }
  void depth_to_space(const ConvGeometry& g, const Tensor& blocks, const Tensor& bias, const Tensor& volume,
                      bool inverse) override {
    loops_.depth_to_space(g, blocks, bias, volume, inverse);
  }

  void norm_forward(const NormArgs& args, const Tensor& x, const NormTensors& t, const Tensor& y) override {
    loops_.norm_forward(args, x, t, y);
  }
  void norm_backward(const NormArgs& args, const Tensor& dy, const Tensor& x, const NormTensors& t,
                     const Tensor& dx) override {
    loops_.norm_backward(args, dy, x, t, dx);
  }

  void pool_forward(const PoolArgs& args, const Tensor& x, const Tensor& y, const Tensor& indices) override {
    loops_.pool_forward(args, x, y, indices);
  }
  void pool_backward(const PoolArgs& args, const Tensor& dy, const Tensor& indices,
                     const Tensor& dx) override {
    loops_.pool_backward(args, dy, indices, dx);
  }

  void softmax_forward(const SoftmaxArgs& args, const Tensor& x, const Tensor& y) override {
    loops_.softmax_forward(args, x, y);
  }
  void softmax_backward(const SoftmaxArgs& args, const Tensor& dy, const Tensor& y,
                        const Tensor& dx) override {
    loops_.softmax_backward(args, dy, y, dx);
  }
  void segmentation_loss(const SegmentationLossArgs& args, const LossTensors& t,
                         const Tensor& loss) override {
    loops_.segmentation_loss(args, t, loss);
  }
  void segmentation_loss_backward(const SegmentationLossArgs& args, const LossTensors& t, const Tensor& seed,
                                  const Tensor& dlogits) override {
    loops_.segmentation_loss_backward(args, t, seed, dlogits);
  }

  void gradient_check(const Tensor& gradient, const StepState& state, GradientCheck& result) override {
    loops_.gradient_check(gradient, state, result);
  }
  void optimizer_step(const OptimizerArgs& args, StepState& state) override {
    loops_.optimizer_step(args, state);
  }

 private:
  ConvContext context_;
  CpuConv conv_;
  CpuGemm gemm_;
  const CpuLoops& loops_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(cpu_target()); }

}  // namespace tandem

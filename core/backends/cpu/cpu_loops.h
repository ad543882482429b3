// The CPU backend's own loops (everything but convolution and matmul) at one instruction-set level: tensors
// in, the level's functions of loops/ below. Which level a process uses is isa.h's subject; the contracts are
// backend.h's.
#pragma once

#include <cstdint>
#include <span>

#include "core/backends/cpu/isa.h"
#include "core/backends/kernel_args.h"

namespace tandem {

struct LoopTable;

// Methods mean what the Backend's methods of the same name mean; dtypes F32, F16, BF16. Results are
// bit-identical for any number of threads. Scratch memory (partial sums) is taken per call and given back.
class CpuLoops {
 public:
  explicit CpuLoops(const LoopTable& table) : table_(&table) {}

  void map(const MapArgs& args, std::span<const Tensor> inputs, const Tensor& out) const;
  void reduce_rows(const Tensor& x, const Tensor& y, const Tensor& out) const;
  void reorder(const Tensor& x, const Tensor& y, bool to_logical) const;
  void move(const MoveArgs& args, const Tensor& x, const Tensor& y) const;
  void resize(const ResizeArgs& args, const Tensor& x, const Tensor& y) const;
  void dropout(const DropoutArgs& args, const Tensor& x, const Tensor& y) const;
  void depth_to_space(const ConvGeometry& g, const Tensor& blocks, const Tensor& bias, const Tensor& volume,
                      bool inverse) const;

  void norm_forward(const NormArgs& args, const Tensor& x, const NormTensors& t, const Tensor& y) const;
  void norm_backward(const NormArgs& args, const Tensor& dy, const Tensor& x, const NormTensors& t,
                     const Tensor& dx) const;

  void pool_forward(const PoolArgs& args, const Tensor& x, const Tensor& y, const Tensor& indices) const;
  void pool_backward(const PoolArgs& args, const Tensor& dy, const Tensor& indices, const Tensor& dx) const;

  void softmax_forward(const SoftmaxArgs& args, const Tensor& x, const Tensor& y) const;
  void softmax_backward(const SoftmaxArgs& args, const Tensor& dy, const Tensor& y, const Tensor& dx) const;
  void segmentation_loss(const SegmentationLossArgs& args, const LossTensors& t, const Tensor& loss) const;
  void segmentation_loss_backward(const SegmentationLossArgs& args, const LossTensors& t, const Tensor& seed,
                                  const Tensor& dlogits) const;

  void gradient_check(const Tensor& gradient, const StepState& state, GradientCheck& result) const;
  void optimizer_step(const OptimizerArgs& args, StepState& state) const;

  // Conversions of n packed elements on the calling thread, for staging inside a kernel; dtype F32, F16 or
  // BF16. To a 16-bit dtype: rounded to nearest even.
  void convert_to_float(const void* from, DType dtype, float* to, std::int64_t n) const;
  void convert_from_float(const float* from, void* to, DType dtype, std::int64_t n) const;

 private:
  // A mean and a variance per row.
  void layer_norm_forward(const NormArgs& args, const Tensor& x, const NormTensors& t, const Tensor& y) const;
  void layer_norm_backward(const NormArgs& args, const Tensor& dy, const Tensor& x, const NormTensors& t,
                           const Tensor& dx) const;

  const LoopTable* table_;
};

// The loops of `isa` (kAmx uses v4's). The caller makes sure that the machine has it.
const CpuLoops& cpu_loops(CpuIsa isa);

}  // namespace tandem

// What a device computes: vendor calls (gemm, convolution), loops over the functors of core/kernels, and
// block kernels (norm, pooling, softmax, losses, optimizer). One object per device. Knows nothing of
// gradients, layers or models.
//
// Rules for every method: tensors are on the backend's device and of checked shapes (core/ops checks, a
// backend may assume); 16-bit floats are computed in FP32 and rounded once, to nearest even, when stored;
// sums over voxels are FP32 or better over blocks whose borders do not depend on the number of threads;
// "overwrites" and "accumulates" are said at each method. F64 is the reference backend's dtype; cpu and cuda
// take F32, F16, BF16.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/backends/kernel_args.h"
#include "core/tensor/tensor.h"

namespace tandem {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device device() const = 0;
  // Channels of a weight segment are padded to a multiple of this (8 on a GPU, 1 elsewhere).
  virtual std::int64_t channel_multiple() const { return 1; }

  // c (+)= op(a) op(b): a [M,K] or [K,M] when transpose_a, b [K,N] or [N,K] when transpose_b, c [M,N].
  // Accumulates when args.accumulate (c F32 then), else overwrites. Pitched operands allowed.
  virtual void gemm(const GemmArgs& args, const Tensor& a, const Tensor& b, const Tensor& c) = 0;

  // y = conv(x, w) + bias. x [N,C,in], w [K,C/groups,kernel], y [N,K,out]; bias F32 [K] or undefined.
  // Overwrites y.
  virtual void conv_forward(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias,
                            const Tensor& y) = 0;
  // dx = conv^T(dy, w): the data gradient, and the forward pass of a transposed convolution. Overwrites dx.
  virtual void conv_backward_data(const ConvGeometry& g, const Tensor& dy, const Tensor& w,
                                  const Tensor& dx) = 0;
  // dw += the weight gradient, in FP32 (F64 in the reference) from 16-bit or FP32 x and dy. Accumulates.
  virtual void conv_backward_weights(const ConvGeometry& g, const Tensor& x, const Tensor& dy,
                                     const Tensor& dw) = 0;

  // out (+)= f(inputs...) elementwise, converting between any two float dtypes. An input has out's shape, or
  // is [C] (per channel), or has one element. Pitched operands allowed. Accumulates when args.accumulate.
  virtual void map(const MapArgs& args, std::span<const Tensor> inputs, const Tensor& out) = 0;
  // out[c] += sum over rows of x[row, c] (* y[row, c] when y is defined). x any float dtype; out F32/F64 [C].
  // Accumulates.
  virtual void reduce_rows(const Tensor& x, const Tensor& y, const Tensor& out) = 0;
  // Copies x into y between channels-last storage and logical (N, C, D, H, W) order; to_logical: y's storage
  // is x's logical order, else the inverse. Same number of elements and dtype, packed. Overwrites.
  virtual void reorder(const Tensor& x, const Tensor& y, bool to_logical) = 0;
  // Copies the elements of a box between two tensors of one dtype. Overwrites the box alone.
  virtual void move(const MoveArgs& args, const Tensor& x, const Tensor& y) = 0;
  // y = R x with R the product of the axes' tables; adjoint: y = R^T x. One dtype, FP32 sums. Overwrites.
  virtual void resize(const ResizeArgs& args, const Tensor& x, const Tensor& y) = 0;
  // y = x times the mask that args draw; packed, one dtype. Overwrites.
  virtual void dropout(const DropoutArgs& args, const Tensor& x, const Tensor& y) = 0;
  // Between blocks [N*in, taps*C] (rank 2) and the volume [N, C, in*stride]: block (v, tap) is voxel v*stride
  // + tap. forward: volume = blocks + bias (bias F32 [C] or undefined); inverse: blocks = volume. Overwrites.
  virtual void depth_to_space(const ConvGeometry& g, const Tensor& blocks, const Tensor& bias,
                              const Tensor& volume, bool inverse) = 0;

  // y = activation((x - mean) * inv_std * scale + shift), over the groups that NormTensors describes. mean,
  // inv_std are written (saved for backward); biased variance, two-pass or shifted in FP32. Overwrites.
  virtual void norm_forward(const NormArgs& args, const Tensor& x, const NormTensors& t, const Tensor& y) = 0;
  // Overwrites dx; accumulates dscale, dshift (F32 [C]). The activation's argument is recomputed from x.
  virtual void norm_backward(const NormArgs& args, const Tensor& dy, const Tensor& x, const NormTensors& t,
                             const Tensor& dx) = 0;

  // Pooling windows of g (channels: g.in_channels). Max: indices I32, shape of y, holds the winning input
  // voxel d*H*W + h*W + w (first of equals, NaN wins). Average: sum / window volume, or / voxels inside when
  // !args.count_padding; accumulated in FP32. Overwrites.
  virtual void pool_forward(const PoolArgs& args, const Tensor& x, const Tensor& y,
                            const Tensor& indices) = 0;
  virtual void pool_backward(const PoolArgs& args, const Tensor& dy, const Tensor& indices,
                             const Tensor& dx) = 0;

  // Over channels, in FP32 with the maximum subtracted; dtypes may differ. Overwrites. backward: dx = y * (dy
  // - sum_c dy y), of the logarithm dx = dy - e^y sum_c dy.
  virtual void softmax_forward(const SoftmaxArgs& args, const Tensor& x, const Tensor& y) = 0;
  virtual void softmax_backward(const SoftmaxArgs& args, const Tensor& dy, const Tensor& y,
                                const Tensor& dx) = 0;
  // A pointwise and an overlap loss of logits [N,C,spatial] (or [N,C]) and labels I32, one per row (with
  // multi_label one per element), in one pass: see SegmentationLossArgs. t.sums: F64 [N, 3*C + 2], written,
  // saved for backward; loss: one F32 (F64) element. A label that is neither a class nor the ignored one
  // makes the loss NaN and is never used as an index.
  virtual void segmentation_loss(const SegmentationLossArgs& args, const LossTensors& t,
                                 const Tensor& loss) = 0;
  // dlogits = seed * d loss / d logits; seed: one F32 (F64) element. FP32 up to the single store. Overwrites.
  virtual void segmentation_loss_backward(const SegmentationLossArgs& args, const LossTensors& t,
                                          const Tensor& seed, const Tensor& dlogits) = 0;

  // One pass over flat FP32 gradients: adds to result the non-finite count and the FP64 sum of squares.
  // state.scale < 1 counts values that overflow when unscaled too.
  virtual void gradient_check(const Tensor& gradient, const StepState& state, GradientCheck& result) = 0;
  // Unscale, clip by norm, clip by value, update the master, moments, 16-bit copy and running mean of one
  // region in one pass; does nothing unless state.event is kGood. Sets state.weight_overflow when a finite
  // master rounds to infinity in the copy.
  virtual void optimizer_step(const OptimizerArgs& args, StepState& state) = 0;
};

// The backend of `device`, made on first use from the explicit table in backend.cpp; throws Error{kDevice}
// with the reason if there is none.
Backend& backend_of(const Device& device);
// Puts a plug-in's backend (or a test's) in the table, in place of an earlier one of the same device.
void register_backend(std::unique_ptr<Backend> backend);

}  // namespace tandem

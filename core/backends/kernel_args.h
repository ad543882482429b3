// Arguments of the backend's methods: plain values. What each method does with them is said in backend.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/kernels/optimizer.h"
#include "core/kernels/step_state.h"
#include "core/kernels/table.h"
#include "core/tensor/tensor.h"

namespace tandem {

struct GemmArgs {
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
};

// Sizes are depth, height, width; absent leading axes are 1 (kernel 1, stride 1, dilation 1, padding 0).
struct ConvGeometry {
  int spatial_rank = 3;
  std::int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;
  std::array<std::int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  std::array<std::int64_t, 3> padding{0, 0, 0};  // at the low end; out fixes the high end

  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  friend bool operator==(const ConvGeometry&, const ConvGeometry&) = default;
};

struct MapArgs {
  MapKernel kernel = MapKernel::kCopy;
  kernels::MapParams params;
  bool accumulate = false;
};

struct NormArgs {
  double eps = 1e-5;
  Activation activation = Activation::kNone;
  double slope = 0.01;  // of kLeakyRelu; alpha of kElu
  bool fixed = false;   // mean and variance are given (batch norm in evaluation), inv_std alone is written
};

// The shape [S, G] of mean and inv_std says what is normalised together: the rows are cut into S equal runs,
// the channels into G groups. Instance norm [N, C], batch norm [1, C], group norm [N, G], layer norm [rows,
// 1]. scale, shift: [C]. dscale, dshift: [C], only for backward. variance: biased, [S, G]; written where it
// is defined. All F32 (F64 in the reference).
struct NormTensors {
  Tensor scale, shift, mean, inv_std, dscale, dshift, variance;
};

struct PoolArgs {
  bool max = true;
  bool count_padding = true;  // average only
  ConvGeometry geometry;      // in_channels == out_channels
};

// A box of elements in two tensors, by logical axis; offsets and strides in elements.
struct MoveArgs {
  int rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> size{}, from_stride{}, to_stride{};
  std::int64_t from_offset = 0, to_offset = 0;
};

// Output position o of an axis is (1 - weight[o]) of input low[o] and weight[o] of input high[o]; the outputs
// that read input i lie in begin[i] .. end[i] - 1.
struct ResizeAxis {
  std::vector<std::int32_t> low, high;
  std::vector<float> weight;
  std::vector<std::int32_t> begin, end;
};
struct ResizeArgs {
  std::shared_ptr<const std::array<ResizeAxis, 3>> axes;
  bool adjoint = false;
};

// Element i of the storage takes word i % 4 of the Philox block of counter {i / 4, counter[1], counter[2],
// counter[3]}; it is kept where the word is at least the threshold.
struct DropoutArgs {
  std::array<std::uint32_t, 2> key{};
  std::array<std::uint32_t, 4> counter{};
  std::uint32_t threshold = 0;
  double scale = 1;  // of what is kept
};

struct SoftmaxArgs {
  bool log = false;  // y = log softmax(x)
};

// loss = ce_weight * CE + dice_weight * (-mean D), with p = softmax(logits), g = one-hot(labels):
//   CE = mean of nll over the valid voxels   (0 without one; nll with label smoothing)
//   D  = (2 sum(p g) + smooth) / max(sum(p) + sum(g) + smooth, 1e-8) per (n, c), or per c over the batch
//        (dice_batch)
// The mean is over classes, without class 0 unless dice_background. With dice_squared sum(p^2) replaces
// sum(p). An ignored label drops its voxel from every sum. Source: nnU-Net v2's DC_and_CE_loss.
struct SegmentationLossArgs {
  double ce_weight = 1, dice_weight = 1;
  double smooth = 1e-5;
  double label_smoothing = 0;
  bool dice_batch = false, dice_background = false, dice_squared = false;
  bool has_ignore_label = false;
  std::int32_t ignore_label = 0;
};

// sums[n] = I[0..C), P[0..C), G[0..C), nll sum, valid voxels.
struct LossTensors {
  Tensor logits, labels, sums;
};

struct GradientCheck {
  std::int64_t nonfinite = 0;
  double sum_of_squares = 0;  // of the scaled gradients
};

struct OptimizerArgs {
  OptimizerKind kind = OptimizerKind::kSgd;
  OptimizerConstants constants;
  Tensor master, gradient;  // F32, flat
  Tensor moment1, moment2;  // F32, flat; undefined where the optimizer has none
  Tensor copy;              // F16/BF16, flat; undefined where the copy aliases the master
};

}  // namespace tandem

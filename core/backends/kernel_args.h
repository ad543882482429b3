// Arguments of the backend's methods: plain values. What each method does with them is said in backend.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
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

// How logits become probabilities p.
enum class LossActivation : std::uint8_t { kSoftmax, kSigmoid };
enum class OverlapLoss : std::uint8_t { kDice, kTversky, kGeneralizedDice };

// loss = ce_weight * pointwise + dice_weight * (-mean overlap), with g the target: one-hot of the label, or
// the labels themselves (multi_label).
//   pointwise, softmax: sum over the valid voxels of w[y] nll / sum of w[y]       (0 without one)
//     nll = -log p_y; with label smoothing e: (1 - e) w[y] nll + e/C sum_c w[c] (-log p_c); with gamma:
//     (1 - p_y)^gamma nll
//   pointwise, sigmoid: mean over the valid voxels and channels of
//     g a w[c] (1 - p)^gamma (-log p) + (1 - g)(1 - a) p^gamma (-log(1 - p)); without alpha both a and 1 - a
//     are 1
//   overlap (core/kernels/overlap.h) per (n, c), or per c over the batch (dice_batch):
//     Dice = (2 sum(p g) + smooth) / max(sum(p) + sum(g) + smooth, 1e-8), or Tversky's index; generalized
//     Dice is one value over all classes
// The mean of the overlap is over classes, without class 0 unless dice_background. With dice_squared sum(p^2)
// replaces sum(p). An ignored label drops its voxel (multi_label: its channel) from every sum. With weights v
// per voxel every term of every sum is multiplied by its voxel's v, as if that voxel occurred v times; v = 0
// drops the voxel, whatever its label. With sigmoid and one channel the labels are 0 and 1. Sources: nnU-Net v2's DC_and_CE_loss, PyTorch's cross_entropy and
// binary_cross_entropy_with_logits, Lin et al. 2017 (focal).
struct SegmentationLossArgs {
  double ce_weight = 1, dice_weight = 1;
  double smooth = 1e-5;
  double label_smoothing = 0;  // softmax, gamma 0
  bool dice_batch = false, dice_background = false, dice_squared = false;
  bool has_ignore_label = false;
  std::int32_t ignore_label = 0;
  LossActivation activation = LossActivation::kSoftmax;
  OverlapLoss overlap = OverlapLoss::kDice;
  double tversky_alpha = 0.5, tversky_beta = 0.5;
  double gamma = 0;
  std::optional<double> alpha{};        // sigmoid
  std::vector<double> class_weights{};  // w, one per channel; empty: all 1. sigmoid: pos_weight
  bool multi_label = false;             // sigmoid: labels [N, C, spatial] of 0 and 1
};

// sums[n] = I[0..C), P[0..C), G[0..C), sum of the pointwise term (NaN after a wrong label), sum of its
// weights.
struct LossTensors {
  Tensor logits, labels, sums;
  Tensor voxel_weights{};  // F32, finite and >= 0, one per row; undefined: all 1
};

struct GradientCheck {
  std::int64_t nonfinite = 0;
  double sum_of_squares = 0;  // of the scaled gradients
};

struct OptimizerArgs {
  OptimizerKind kind = OptimizerKind::kSgd;
  OptimizerConstants constants;
  // Ascending ends, the last one the region's size. Empty: one part with constants.weight_decay.
  std::vector<OptimizerPart> parts{};
  Tensor master, gradient;  // F32, flat
  // F32, flat; undefined where the optimizer has none. sgd: momentum; adam(w): mean, mean of squares;
  // rmsprop: mean of squares, mean (centered), momentum.
  Tensor moment1, moment2, moment3;
  Tensor copy;  // F16/BF16, flat; undefined where the copy aliases the master
  Tensor ema;   // F32, flat; undefined: none. ema += ema_rate (master - ema) after the update
};

}  // namespace tandem

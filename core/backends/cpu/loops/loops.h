// What the loops of one instruction-set level are given: plain structs of raw pointers, and the level's
// function table. No inline functions and no containers here: this header is compiled at every level, and a
// symbol that the linker may merge would carry wide instructions to a narrow machine.
#pragma once

#include <cstdint>

#include "core/backends/cpu/loops/matrix.h"
#include "core/backends/cpu/loops/move_loops.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/optimizer.h"

namespace tandem {

enum class MapKernel : std::uint8_t;
enum class Activation : std::uint8_t;

enum class OperandKind { kFull, kPerChannel, kSingle };

constexpr int kMapInputs = 3;  // the largest arity of a functor

struct MapLoop {
  MapKernel kernel;
  kernels::MapParams params;
  bool accumulate;
  int threads;
  Chunks chunks;  // one sample of out.rows
  Matrix out;
  Matrix in[kMapInputs];  // data null: not there
  OperandKind kind[kMapInputs];
};

// partial[chunk][channel] = sum over the chunk's rows of x (* y, unless y.data is null).
struct ReduceLoop {
  int threads;
  Chunks chunks;
  Matrix x, y;
  double* partial;
};

struct NormLoop {
  int threads;
  Activation activation;
  kernels::MapParams params;  // of the activation
  Chunks chunks;
  Matrix x, y;      // y: dx in the backward pass
  Matrix dy;        // backward only
  double* partial;  // [sample][chunk][2][channels]: mean and sum of squared deviations; backward: sums of g,
                    // g*xhat
  // Per sample and channel, [samples, channels]; what they are is said at each function of norm.cpp.
  const float *center, *factor, *offset;
  const float *inv_std, *constant, *linear;
  const float *scale, *shift;  // [channels]
};

struct LayerNormLoop {
  int threads;
  Activation activation;
  kernels::MapParams params;  // of the activation
  float eps;
  Chunks chunks;
  std::int64_t block_rows;
  float* scratch;   // per thread 3 * block_rows * channels + 2 * channels floats
  Matrix x, y, dy;  // y: dx in the backward pass
  float *mean, *inv_std;
  const float *scale, *shift;
  double* partial;  // [chunk][2][channels]
};

struct PoolLoop {
  int threads;
  bool max, count_padding;
  std::int64_t batch, channels;
  std::int64_t in[3], out[3], kernel[3], stride[3], padding[3];
  Matrix x, y, indices;  // backward: x is dx (written), y is dy (read)
};

// Softmax-like loops work on planes: a block of rows is transposed to [channels, block_rows].
struct SoftmaxLoop {
  int threads;
  bool log;
  Chunks chunks;
  std::int64_t block_rows;  // a multiple of 16
  float* scratch;           // per thread 2 * channels * block_rows floats
  Matrix x, y, dy;          // backward writes x
};

struct LossLoop {
  SoftmaxLoop rows;  // x: logits (backward: y is dlogits)
  const std::int32_t* labels;
  const float* voxel_weight;  // per row; null: all 1
  bool has_ignore_label, dice_squared;
  bool multi_label;  // sigmoid: labels are [rows, channels] of 0 and 1
  std::int32_t ignore_label;
  float smoothing, gamma;
  const float* class_weight;  // [channels]; sigmoid: of a target 1, negative_weight of a target 0
  float weight_sum, negative_weight;
  double* partial;  // [sample][chunk][3 * channels + 2]: I, P, G, pointwise sum (NaN after a bad label) and
                    // weight
  // Backward, already times the seed: d loss / d p_c = prediction[n, c] (* 2 p_c when squared) +
  // intersection[n, c] where the target is 1; factor of the pointwise slope.
  const float *prediction, *intersection;
  float ce_factor;
};

struct CheckLoop {
  int threads;
  Chunks chunks;
  const float* gradient;
  float inverse;         // values whose product with it overflows count too
  std::int64_t* counts;  // per chunk
  double* squares;
};

// Step factors of the elements before `end` that no earlier part has.
struct OptimizerLoopPart {
  std::int64_t end;
  kernels::SgdStep<float> sgd;
  kernels::AdamStep<float> adam;
  kernels::RmsPropStep<float> rms;
};

struct OptimizerLoop {
  int threads;
  OptimizerKind kind;
  bool centered;
  const OptimizerLoopPart* parts;  // ascending ends, the last one n
  float inverse, clip;             // factors on the gradient; 1 leaves it as it is
  float clip_value;                // bound after them; 0: none
  std::int64_t n;
  const float* gradient;
  float *master, *moment1, *moment2, *moment3;
  void* copy;  // null: none
  DType copy_dtype;
  float* ema;  // null: none
  float ema_rate;
};

// One per level. What each function does with its struct is said at its definition.
struct LoopTable {
  void (*map)(const MapLoop&);
  void (*reduce_rows)(const ReduceLoop&);
  void (*reorder)(const ReorderLoop&);
  void (*move)(const MoveLoop&);
  void (*resize)(const ResizeLoop&);
  void (*dropout)(const DropoutLoop&);
  void (*depth_to_space)(const DepthToSpaceLoop&);
  void (*norm_statistics)(const NormLoop&);
  void (*norm_apply)(const NormLoop&);
  void (*norm_backward_sums)(const NormLoop&);
  void (*norm_backward_apply)(const NormLoop&);
  void (*layer_norm_forward)(const LayerNormLoop&);
  void (*layer_norm_backward)(const LayerNormLoop&);
  void (*pool_forward)(const PoolLoop&);
  void (*pool_backward)(const PoolLoop&);
  void (*softmax_forward)(const SoftmaxLoop&);
  void (*softmax_backward)(const SoftmaxLoop&);
  void (*loss_sums)(const LossLoop&);
  void (*loss_backward)(const LossLoop&);
  void (*sigmoid_loss_sums)(const LossLoop&);
  void (*sigmoid_loss_backward)(const LossLoop&);
  void (*gradient_check)(const CheckLoop&);
  bool (*optimizer_step)(const OptimizerLoop&);  // true when a finite master became infinite in the copy
  void (*widen)(const void* from, DType dtype, float* to, std::int64_t n);
  void (*narrow)(const float* from, void* to, DType dtype, std::int64_t n);
};

namespace isa_v2 {
extern const LoopTable kLoops;
}
namespace isa_v3 {
extern const LoopTable kLoops;
}
namespace isa_v4 {
extern const LoopTable kLoops;
}

}  // namespace tandem

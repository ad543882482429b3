// Softmax, and the losses on class labels: one kernel with different arguments.
#include "core/ops/loss.h"

#include <cmath>

#include "core/backends/common/loss_terms.h"
#include "core/base/error.h"
#include "core/ops/op_checks.h"

namespace tandem {
namespace {

void require_logits(std::string_view op, const Var& logits) {
  require_float(op, {"logits", logits});
  if (logits.shape().rank() < 2 || logits.shape()[1] < 1)
    fail(ErrorKind::kShape, "[{}] logits: got {}, expected [N, C] or [N, C, spatial] with C >= 1", op,
         to_string(logits.shape()));
}

// One label per row of the logits. Without the channel axis only where channels-last order is row-major too.
bool is_label_shape(const Shape& labels, const Shape& logits) {
  if (labels == logits.with(1, 1)) return true;
  if (logits.rank() == 2) return labels == Shape{logits[0]};
  return logits.rank() == 3 && labels == Shape{logits[0], logits[2]};
}

void require_labels(std::string_view op, const Var& logits, const Var& labels, bool multi_label) {
  const Shape expected = logits.shape().with(1, 1);
  const bool fits = multi_label || is_label_shape(labels.shape(), logits.shape());
  if (labels.dtype() != DType::kI32 || !fits)
    fail(ErrorKind::kShape, "[{}] labels: got {}, expected I32 {} for logits {}", op,
         to_string(labels.value()), to_string(expected), to_string(logits.shape()));
  if (logits.shape().numel() == 0)
    fail(ErrorKind::kShape, "[{}] nothing to average: got logits {}, expected at least one voxel", op,
         to_string(logits.shape()));
}

void require_weights(std::string_view op, const SegmentationLossArgs& args, std::int64_t classes) {
  const auto& weights = args.class_weights;
  const std::string_view name = args.activation == LossActivation::kSigmoid ? "pos_weight" : "class_weights";
  if (!weights.empty() && static_cast<std::int64_t>(weights.size()) != classes)
    fail(ErrorKind::kShape, "[{}] {}: got {} values, expected {}: one per channel of the logits", op, name,
         weights.size(), classes);
  for (const double weight : weights)
    if (!(weight >= 0 && std::isfinite(weight)))
      fail(ErrorKind::kShape, "[{}] {}: got {}, expected finite values >= 0", op, name, weight);
}

void require_options(std::string_view op, const SegmentationLossArgs& args, std::int64_t classes) {
  if (!(args.label_smoothing >= 0 && args.label_smoothing < 1))
    fail(ErrorKind::kShape, "[{}] label_smoothing: got {}, expected 0 <= label_smoothing < 1", op,
         args.label_smoothing);
  if (args.label_smoothing > 0 && (args.gamma > 0 || args.activation == LossActivation::kSigmoid))
    fail(ErrorKind::kShape, "[{}] label_smoothing: got {}, expected 0 with a focal or sigmoid loss", op,
         args.label_smoothing);
  if (!(args.smooth >= 0)) fail(ErrorKind::kShape, "[{}] smooth: got {}, expected >= 0", op, args.smooth);
  if (!(args.gamma >= 0 && args.gamma <= 100))
    fail(ErrorKind::kShape, "[{}] gamma: got {}, expected 0 <= gamma <= 100", op, args.gamma);
  if (args.alpha && !(*args.alpha >= 0 && *args.alpha <= 1))
    fail(ErrorKind::kShape, "[{}] alpha: got {}, expected 0 <= alpha <= 1", op, *args.alpha);
  if (args.alpha && args.activation == LossActivation::kSoftmax)
    throw Error(
        ErrorKind::kShape,
        fmt::format("[{}] alpha: got {} with softmax, expected the sigmoid activation", op, *args.alpha),
        "Weigh the classes of a softmax with class_weights.");
  if (args.overlap == OverlapLoss::kTversky && !(args.tversky_alpha >= 0 && args.tversky_beta >= 0))
    fail(ErrorKind::kShape, "[{}] alpha and beta: got {} and {}, expected >= 0", op, args.tversky_alpha,
         args.tversky_beta);
  if (args.dice_weight != 0 && first_overlap_class(args, classes) >= classes)
    throw Error(ErrorKind::kShape,
                fmt::format("[{}] classes: got {}, expected at least 2 without the background", op, classes),
                "Set background: true.");
  require_weights(op, args, classes);
}

Var softmax_of(std::string_view op, const Var& x, const SoftmaxArgs& args, DType dtype) {
  require_logits(op, x);
  Tape& tape = x.tape();
  const Tensor y(x.shape(), dtype, x.value().device());
  if (y.numel() > 0) tape.backend().softmax_forward(args, x.value(), y);
  return tape.record(op, y, {x}, [&tape, x = x.gradient_only(), args, y](const Tensor& dy) {
    const Tensor dx(x.shape(), x.dtype(), dy.device());
    if (dx.numel() > 0) tape.backend().softmax_backward(args, dy, y, dx);
    x.accumulate(dx);
  });
}

void require_voxel_weights(std::string_view op, const Var& logits, const Tensor& weights) {
  const Shape expected = logits.shape().with(1, 1);
  if (weights.defined() && (weights.dtype() != DType::kF32 || weights.shape() != expected))
    fail(ErrorKind::kShape, "[{}] voxel_weights: got {}, expected F32 {} for logits {}", op,
         to_string(weights), to_string(expected), to_string(logits.shape()));
}

Var loss_op(std::string_view op, const Var& logits, const Var& labels, SegmentationLossArgs args,
            const Tensor& voxel_weights = {}) {
  require_logits(op, logits);
  args.multi_label = args.activation == LossActivation::kSigmoid && logits.shape()[1] > 1 &&
                     labels.shape() == logits.shape();
  require_labels(op, logits, labels, args.multi_label);
  require_options(op, args, logits.shape()[1]);
  require_voxel_weights(op, logits, voxel_weights);
  Tape& tape = logits.tape();
  const Device device = logits.value().device();
  const Tensor sums(Shape{logits.shape()[0], 3 * logits.shape()[1] + 2}, DType::kF64, device,
                    MemoryCategory::kWorkspace);
  const Tensor loss(Shape{1}, accumulation_dtype(logits.dtype()), device);
  const LossTensors saved{
      .logits = logits.value(), .labels = labels.value(), .sums = sums, .voxel_weights = voxel_weights};
  tape.backend().segmentation_loss(args, saved, loss);
  return tape.record(op, loss, {logits},
                     [&tape, logits = logits.gradient_only(), args, saved](const Tensor& seed) {
                       const Tensor dlogits(logits.shape(), logits.dtype(), seed.device());
                       tape.backend().segmentation_loss_backward(args, saved, seed, dlogits);
                       logits.accumulate(dlogits);
                     });
}

// The overlap alone.
SegmentationLossArgs overlap_args(const DiceOptions& options, OverlapLoss overlap) {
  return {.ce_weight = 0,
          .dice_weight = 1,
          .smooth = options.smooth,
          .dice_batch = options.batch,
          .dice_background = options.background,
          .dice_squared = options.squared,
          .has_ignore_label = options.ignore_label.has_value(),
          .ignore_label = options.ignore_label.value_or(0),
          .activation = options.activation,
          .overlap = overlap};
}

}  // namespace

Var softmax(const Var& x) { return softmax_of("softmax", x, {}, x.dtype()); }

Var log_softmax(const Var& x) {
  return softmax_of("log_softmax", x, {.log = true}, accumulation_dtype(x.dtype()));
}

Var segmentation_loss(const Var& logits, const Var& labels, const SegmentationLossArgs& args,
                      const Tensor& voxel_weights) {
  return loss_op("segmentation_loss", logits, labels, args, voxel_weights);
}

Var cross_entropy(const Var& logits, const Var& labels, const CrossEntropyOptions& options) {
  return loss_op("cross_entropy", logits, labels,
                 {.ce_weight = 1,
                  .dice_weight = 0,
                  .label_smoothing = options.label_smoothing,
                  .has_ignore_label = options.ignore_label.has_value(),
                  .ignore_label = options.ignore_label.value_or(0),
                  .class_weights = options.class_weights});
}

Var bce_with_logits(const Var& logits, const Var& labels, const BceOptions& options) {
  return loss_op("bce_with_logits", logits, labels,
                 {.ce_weight = 1,
                  .dice_weight = 0,
                  .has_ignore_label = options.ignore_label.has_value(),
                  .ignore_label = options.ignore_label.value_or(0),
                  .activation = LossActivation::kSigmoid,
                  .class_weights = options.pos_weight});
}

Var focal_loss(const Var& logits, const Var& labels, const FocalOptions& options) {
  return loss_op("focal_loss", logits, labels,
                 {.ce_weight = 1,
                  .dice_weight = 0,
                  .has_ignore_label = options.ignore_label.has_value(),
                  .ignore_label = options.ignore_label.value_or(0),
                  .activation = options.activation,
                  .gamma = options.gamma,
                  .alpha = options.alpha,
                  .class_weights = options.class_weights});
}

Var soft_dice(const Var& logits, const Var& labels, const DiceOptions& options) {
  return loss_op("soft_dice", logits, labels, overlap_args(options, OverlapLoss::kDice));
}

Var generalized_dice(const Var& logits, const Var& labels, const DiceOptions& options) {
  return loss_op("generalized_dice", logits, labels, overlap_args(options, OverlapLoss::kGeneralizedDice));
}

Var tversky(const Var& logits, const Var& labels, const TverskyOptions& options) {
  SegmentationLossArgs args = overlap_args(options.dice, OverlapLoss::kTversky);
  args.tversky_alpha = options.alpha;
  args.tversky_beta = options.beta;
  return loss_op("tversky", logits, labels, args);
}

Var dice_ce(const Var& logits, const Var& labels, const DiceCeOptions& options) {
  SegmentationLossArgs args = overlap_args(options.dice, OverlapLoss::kDice);
  args.ce_weight = options.ce_weight;
  args.dice_weight = options.dice_weight;
  args.label_smoothing = options.label_smoothing;
  return loss_op("dice_ce", logits, labels, args);
}

}  // namespace tandem

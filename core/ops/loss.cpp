// Softmax, and the three losses: one kernel with different weights.
#include "core/ops/loss.h"

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

void require_labels(std::string_view op, const Var& logits, const Var& labels) {
  const Shape expected = logits.shape().with(1, 1);
  if (labels.dtype() != DType::kI32 || !is_label_shape(labels.shape(), logits.shape()))
    fail(ErrorKind::kShape, "[{}] labels: got {}, expected I32 {} for logits {}", op,
         to_string(labels.value()), to_string(expected), to_string(logits.shape()));
  if (logits.shape().numel() == 0)
    fail(ErrorKind::kShape, "[{}] nothing to average: got logits {}, expected at least one voxel", op,
         to_string(logits.shape()));
}

void require_options(std::string_view op, const SegmentationLossArgs& args, std::int64_t classes) {
  if (!(args.label_smoothing >= 0 && args.label_smoothing < 1))
    fail(ErrorKind::kShape, "[{}] label_smoothing: got {}, expected 0 <= label_smoothing < 1", op,
         args.label_smoothing);
  if (!(args.smooth >= 0)) fail(ErrorKind::kShape, "[{}] smooth: got {}, expected >= 0", op, args.smooth);
  if (args.dice_weight != 0 && !args.dice_background && classes < 2)
    throw Error(ErrorKind::kShape,
                fmt::format("[{}] classes: got {}, expected at least 2 without the background", op, classes),
                "Set background: true.");
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

Var segmentation_loss(std::string_view op, const Var& logits, const Var& labels,
                      const SegmentationLossArgs& args) {
  require_logits(op, logits);
  require_labels(op, logits, labels);
  require_options(op, args, logits.shape()[1]);
  Tape& tape = logits.tape();
  const Device device = logits.value().device();
  const Tensor sums(Shape{logits.shape()[0], 3 * logits.shape()[1] + 2}, DType::kF64, device,
                    MemoryCategory::kWorkspace);
  const Tensor loss(Shape{1}, accumulation_dtype(logits.dtype()), device);
  tape.backend().segmentation_loss(args, logits.value(), labels.value(), sums, loss);
  const LossTensors saved{.logits = logits.value(), .labels = labels.value(), .sums = sums};
  return tape.record(op, loss, {logits},
                     [&tape, logits = logits.gradient_only(), args, saved](const Tensor& seed) {
                       const Tensor dlogits(logits.shape(), logits.dtype(), seed.device());
                       tape.backend().segmentation_loss_backward(args, saved, seed, dlogits);
                       logits.accumulate(dlogits);
                     });
}

}  // namespace

Var softmax(const Var& x) { return softmax_of("softmax", x, {}, x.dtype()); }

Var log_softmax(const Var& x) {
  return softmax_of("log_softmax", x, {.log = true}, accumulation_dtype(x.dtype()));
}

Var cross_entropy(const Var& logits, const Var& labels, const CrossEntropyOptions& options) {
  return segmentation_loss("cross_entropy", logits, labels,
                           {.ce_weight = 1,
                            .dice_weight = 0,
                            .label_smoothing = options.label_smoothing,
                            .has_ignore_label = options.ignore_label.has_value(),
                            .ignore_label = options.ignore_label.value_or(0)});
}

Var soft_dice(const Var& logits, const Var& labels, const DiceOptions& options) {
  return segmentation_loss("soft_dice", logits, labels,
                           {.ce_weight = 0,
                            .dice_weight = 1,
                            .smooth = options.smooth,
                            .dice_batch = options.batch,
                            .dice_background = options.background,
                            .dice_squared = options.squared,
                            .has_ignore_label = options.ignore_label.has_value(),
                            .ignore_label = options.ignore_label.value_or(0)});
}

Var dice_ce(const Var& logits, const Var& labels, const DiceCeOptions& options) {
  return segmentation_loss("dice_ce", logits, labels,
                           {.ce_weight = options.ce_weight,
                            .dice_weight = options.dice_weight,
                            .smooth = options.dice.smooth,
                            .label_smoothing = options.label_smoothing,
                            .dice_batch = options.dice.batch,
                            .dice_background = options.dice.background,
                            .dice_squared = options.dice.squared,
                            .has_ignore_label = options.dice.ignore_label.has_value(),
                            .ignore_label = options.dice.ignore_label.value_or(0)});
}

}  // namespace tandem

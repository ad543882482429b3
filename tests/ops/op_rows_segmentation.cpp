// Rows of the losses beyond cross entropy and Dice, and of the errors of two tensors.
#include <algorithm>
#include <cmath>

#include "core/ops/regression_loss.h"
#include "tests/ops/loss_formulas.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

constexpr std::int32_t kIgnored = 9;
constexpr LossActivation kSigmoid = LossActivation::kSigmoid;

// Class indices (0 and 1 for one channel), or a 0 or 1 per element; of every fifth the ignored one, if there
// is one.
Values some_labels(const Shape& logits, const SegmentationLossArgs& args) {
  const Shape shape = args.multi_label ? logits : logits.with(1, 1);
  const std::size_t classes = args.multi_label || logits[1] == 1 ? 2 : static_cast<std::size_t>(logits[1]);
  Values values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = args.has_ignore_label && i % 5 == 4 ? args.ignore_label
                                                    : static_cast<double>((i * i + i / 3) % classes);
  return values;
}

using LossCall = std::function<Var(const Var& logits, const Var& labels)>;

// `args` says what `call` computes.
OpRow row_of(const std::string& op, const std::string& variant, const Shape& shape,
             const SegmentationLossArgs& args, const LossCall& call) {
  OpRow row{.op = op, .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [=](std::span<const Var> in) {
    const Shape label_shape = args.multi_label ? shape : shape.with(1, 1);
    return call(in[0], in[0].tape().constant(Tensor::from_values(label_shape, some_labels(shape, args),
                                                                 DType::kI32, in[0].value().device())));
  };
  row.wide_output = true;
  row.overflows_inside = args.label_smoothing > 0;  // sums the logits of all classes
  row.forward_sum = row.backward_sum = shape.numel();
  row.formula = [=](const InputValues& in) {
    return Values{segmentation_loss_formula(shape, in[0], some_labels(shape, args), args)};
  };
  return row;
}

OpRow weighted_ce(const std::string& variant, const Shape& shape, const CrossEntropyOptions& o) {
  return row_of("cross_entropy", variant, shape,
                {.dice_weight = 0,
                 .label_smoothing = o.label_smoothing,
                 .has_ignore_label = o.ignore_label.has_value(),
                 .ignore_label = o.ignore_label.value_or(0),
                 .class_weights = o.class_weights},
                [o](const Var& x, const Var& labels) { return cross_entropy(x, labels, o); });
}

OpRow bce_row(const std::string& variant, const Shape& shape, bool multi_label = false,
              const BceOptions& o = {}) {
  return row_of("bce_with_logits", variant, shape,
                {.dice_weight = 0,
                 .has_ignore_label = o.ignore_label.has_value(),
                 .ignore_label = o.ignore_label.value_or(0),
                 .activation = kSigmoid,
                 .class_weights = o.pos_weight,
                 .multi_label = multi_label},
                [o](const Var& x, const Var& labels) { return bce_with_logits(x, labels, o); });
}

OpRow focal_row(const std::string& variant, const Shape& shape, const FocalOptions& o,
                bool multi_label = false) {
  return row_of("focal_loss", variant, shape,
                {.dice_weight = 0,
                 .has_ignore_label = o.ignore_label.has_value(),
                 .ignore_label = o.ignore_label.value_or(0),
                 .activation = o.activation,
                 .gamma = o.gamma,
                 .alpha = o.alpha,
                 .class_weights = o.class_weights,
                 .multi_label = multi_label},
                [o](const Var& x, const Var& labels) { return focal_loss(x, labels, o); });
}

SegmentationLossArgs overlap(const DiceOptions& o, OverlapLoss kind, bool multi_label = false) {
  return {.ce_weight = 0,
          .smooth = o.smooth,
          .dice_batch = o.batch,
          .dice_background = o.background,
          .dice_squared = o.squared,
          .has_ignore_label = o.ignore_label.has_value(),
          .ignore_label = o.ignore_label.value_or(0),
          .activation = o.activation,
          .overlap = kind,
          .multi_label = multi_label};
}

OpRow sigmoid_dice(const std::string& variant, const Shape& shape, DiceOptions o, bool multi_label = false) {
  o.activation = kSigmoid;
  return row_of("soft_dice", variant, shape, overlap(o, OverlapLoss::kDice, multi_label),
                [o](const Var& x, const Var& labels) { return soft_dice(x, labels, o); });
}

OpRow generalized_row(const std::string& variant, const Shape& shape, const DiceOptions& o) {
  return row_of("generalized_dice", variant, shape, overlap(o, OverlapLoss::kGeneralizedDice),
                [o](const Var& x, const Var& labels) { return generalized_dice(x, labels, o); });
}

OpRow tversky_row(const std::string& variant, const Shape& shape, const TverskyOptions& o) {
  SegmentationLossArgs args = overlap(o.dice, OverlapLoss::kTversky);
  args.tversky_alpha = o.alpha;
  args.tversky_beta = o.beta;
  return row_of("tversky", variant, shape, args,
                [o](const Var& x, const Var& labels) { return tversky(x, labels, o); });
}

OpRow any_row(const std::string& variant, const Shape& shape, const SegmentationLossArgs& args) {
  return row_of("segmentation_loss", variant, shape, args,
                [args](const Var& x, const Var& labels) { return segmentation_loss(x, labels, args); });
}

// Weights of 0, 0.5, 1 and 2.5 per voxel.
OpRow voxel_weights_row(const std::string& variant, const Shape& shape, const SegmentationLossArgs& args) {
  constexpr double kWeights[] = {1, 0, 2.5, 0.5, 1};
  const Shape weight_shape = shape.with(1, 1);
  Values weights(static_cast<std::size_t>(weight_shape.numel()));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = kWeights[(i + i / 7) % 5];
  OpRow row = row_of("segmentation_loss", variant, shape, args, [=](const Var& x, const Var& labels) {
    return segmentation_loss(x, labels, args,
                             Tensor::from_values(weight_shape, weights, DType::kF32, x.value().device()));
  });
  row.overflows_inside = true;  // a weight times the largest loss
  row.formula = [=](const InputValues& in) {
    return Values{segmentation_loss_formula(shape, in[0], some_labels(shape, args), args, weights)};
  };
  return row;
}

std::vector<OpRow> voxel_weights_rows() {
  const std::vector<double> w{0.5, 1, 2};
  return {
      voxel_weights_row("voxelWeights", {2, 3, 17}, {}),
      voxel_weights_row("voxelWeightsSmoothing", {2, 3, 3, 5},
                        {.label_smoothing = 0.1, .dice_batch = true, .class_weights = w}),
      voxel_weights_row("voxelWeightsFocal", {2, 3, 17}, {.gamma = 2}),
      voxel_weights_row("voxelWeightsIgnore", {2, 3, 11},
                        {.dice_squared = true, .has_ignore_label = true, .ignore_label = 9}),
      voxel_weights_row("voxelWeightsGeneralized", {2, 3, 17}, {.overlap = OverlapLoss::kGeneralizedDice}),
      voxel_weights_row("voxelWeightsSigmoid", {2, 1, 17}, {.activation = kSigmoid}),
      voxel_weights_row("voxelWeightsMultiLabel", {2, 3, 3, 5},
                        {.activation = kSigmoid, .gamma = 1.5, .multi_label = true}),
  };
}

using ErrorCall = std::function<Var(const Var& x, const Var& target)>;
using ErrorOf = std::function<double(double difference)>;

OpRow error_row(const std::string& op, const std::string& variant, const Shape& shape, const ErrorCall& call,
                const ErrorOf& error) {
  OpRow row{.op = op, .variant = variant, .inputs = {{.shape = shape}, {.shape = shape}}};
  row.build = [call](std::span<const Var> in) { return call(in[0], in[1]); };
  row.wide_output = true;
  row.overflows_inside = true;  // squares and differences
  row.forward_sum = shape.numel();
  row.formula = [error](const InputValues& in) {
    double sum = 0;
    for (std::size_t i = 0; i < in[0].size(); ++i) sum += error(std::abs(in[0][i] - in[1][i]));
    return Values{sum / static_cast<double>(in[0].size())};
  };
  row.accept = [](const InputValues& in) {  // away from the kinks at 0, 0.5 and 1
    for (std::size_t i = 0; i < in[0].size(); ++i)
      for (const double kink : {0.0, 0.5, 1.0})
        if (std::abs(std::abs(in[0][i] - in[1][i]) - kink) < 1e-3) return false;
    return true;
  };
  return row;
}

void add_error_rows(std::vector<OpRow>& rows) {
  const auto square = [](double d) { return d * d; };
  const auto absolute = [](double d) { return d; };
  const auto smooth = [](double beta) {
    return [beta](double d) { return d < beta ? d * d / (2 * beta) : d - beta / 2; };
  };
  const auto half = [](const Var& x, const Var& y) { return smooth_l1_loss(x, y, 0.5); };
  const auto whole = [](const Var& x, const Var& y) { return smooth_l1_loss(x, y); };
  for (const Shape& shape : {Shape{7, 3}, Shape{2, 3, 17}, Shape{1, 1, 1}}) {
    const std::string name = std::to_string(shape.numel());
    rows.push_back(error_row("mse_loss", name, shape, mse_loss, square));
    rows.push_back(error_row("l1_loss", name, shape, l1_loss, absolute));
    rows.push_back(error_row("smooth_l1_loss", name, shape, whole, smooth(1)));
    rows.push_back(error_row("smooth_l1_loss", "half" + name, shape, half, smooth(0.5)));
  }
  rows.push_back(error_row("mse_loss", "large", {2, 5, 31, 33}, mse_loss, square));
  rows.back().large = true;
  rows.back().accept = nullptr;
}

}  // namespace

std::vector<OpRow> segmentation_loss_rows() {
  const std::vector<double> w{0.5, 1, 2};
  std::vector<OpRow> rows{
      weighted_ce("weights", {2, 3, 7}, {.class_weights = w}),
      weighted_ce("weightsSmoothing", {2, 3, 3, 5}, {.label_smoothing = 0.1, .class_weights = w}),
      weighted_ce("weightsIgnore", {2, 3, 11}, {.ignore_label = kIgnored, .class_weights = w}),
      weighted_ce("zeroWeight", {2, 3, 7}, {.class_weights = {0, 1, 2}}),
      bce_row("oneChannel", {2, 1, 17}),
      bce_row("matrix", {7, 3}),
      bce_row("multiLabel", {2, 3, 3, 5}, true),
      bce_row("posWeight", {2, 3, 7}, true, {.pos_weight = w}),
      bce_row("ignore", {2, 3, 11}, false, {.ignore_label = kIgnored}),
      bce_row("multiIgnore", {2, 3, 11}, true, {.ignore_label = kIgnored}),
      focal_row("softmax", {2, 3, 17}, {}),
      focal_row("gamma0", {2, 3, 5}, {.gamma = 0}),
      focal_row("gammaHalf", {1, 4, 9}, {.gamma = 0.5}),
      focal_row("weights", {2, 3, 7}, {.class_weights = w, .ignore_label = kIgnored}),
      focal_row("sigmoid", {2, 3, 7}, {.activation = kSigmoid}),
      focal_row("alpha", {2, 1, 17}, {.activation = kSigmoid, .alpha = 0.25}),
      focal_row("multiLabel", {2, 3, 3, 3}, {.activation = kSigmoid, .gamma = 1.5, .alpha = 0.75}, true),
      sigmoid_dice("sigmoid", {2, 3, 17}, {.background = true, .squared = true, .smooth = 0}),
      sigmoid_dice("sigmoidOneChannel", {2, 1, 9}, {.batch = false}),
      sigmoid_dice("multiLabel", {2, 3, 7}, {.ignore_label = kIgnored}, true),
      generalized_row("batch", {2, 3, 17}, {.background = true}),
      generalized_row("sample", {2, 4, 3, 5}, {.batch = false}),
      generalized_row("sigmoid", {2, 3, 7}, {.background = true, .smooth = 0, .activation = kSigmoid}),
      generalized_row("absentClass", {1, 5, 2}, {.background = true}),
      tversky_row("batch", {2, 3, 17}, {}),
      tversky_row("sample", {2, 3, 3, 5}, {.dice = {.batch = false, .background = true}, .alpha = 0.6}),
      tversky_row("sigmoidIgnore", {2, 3, 11}, {.dice = {.ignore_label = kIgnored, .activation = kSigmoid}}),
      bce_row("oneElement", {1, 1}),
      focal_row("oneElement", {1, 1}, {.activation = kSigmoid}),
      sigmoid_dice("oneElement", {1, 1}, {}),
      generalized_row("smallest", {1, 2}, {.background = true, .activation = kSigmoid}),
      tversky_row("oneElement", {1, 1}, {.dice = {.background = true, .activation = kSigmoid}}),
      any_row("oneElement", {1, 1}, {.activation = kSigmoid}),
      any_row("diceBce", {2, 3, 7}, {.ce_weight = 0.5, .dice_weight = 2, .activation = kSigmoid}),
      any_row("diceFocal", {2, 3, 7}, {.dice_batch = true, .gamma = 2}),
      any_row("diceFocalSigmoid", {2, 3, 9}, {.activation = kSigmoid, .gamma = 2, .alpha = 0.25}),
      any_row("tverskyCe", {2, 3, 7}, {.overlap = OverlapLoss::kTversky, .tversky_alpha = 0.3}),
  };
  for (OpRow& row : voxel_weights_rows()) rows.push_back(std::move(row));
  // Weights as a loss scale would be: the gradients of so many voxels are subnormal in FP16 else.
  SegmentationLossArgs sigmoid{.ce_weight = 1024, .dice_weight = 1024, .activation = kSigmoid, .gamma = 2},
      softmax{.ce_weight = 1024, .dice_weight = 1024, .gamma = 2}, multi = sigmoid;
  multi.gamma = 0;
  multi.multi_label = true;
  std::vector<OpRow> large{any_row("largeSigmoid6", {2, 6, 11, 12, 33}, sigmoid),
                           any_row("largeFocal6", {2, 6, 11, 12, 33}, softmax),
                           any_row("largeMulti20", {1, 20, 5, 12, 33}, multi)};
  for (OpRow& row : large) {
    row.large = true;
    rows.push_back(row);
  }
  add_error_rows(rows);
  return rows;
}

}  // namespace tandem::testing

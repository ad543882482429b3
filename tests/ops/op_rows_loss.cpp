// Rows of softmax and the losses.
#include <cmath>

#include "core/ops/loss.h"
#include "tests/ops/formulas.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

constexpr std::int32_t kIgnored = 9;

// Labels 1, 8, 15, ... modulo the classes, in logical order; of every fifth voxel the ignored one, if there
// is one.
Values label_values(const Shape& logits, const DiceCeOptions& options) {
  Values values(static_cast<std::size_t>(logits.with(1, 1).numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = options.dice.ignore_label && i % 5 == 4
                    ? *options.dice.ignore_label
                    : static_cast<double>((i * 7 + 1) % static_cast<std::size_t>(logits[1]));
  return values;
}

using LossFunction = Var (*)(const Var& logits, const Var& labels, const DiceCeOptions& options);

OpRow loss_row(const std::string& op, const std::string& variant, const Shape& shape, LossFunction loss,
               const DiceCeOptions& options) {
  OpRow row{.op = op, .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [=](std::span<const Var> in) {
    const Tensor labels = Tensor::from_values(shape.with(1, 1), label_values(shape, options), DType::kI32,
                                              in[0].value().device());
    return loss(in[0], in[0].tape().constant(labels), options);
  };
  row.wide_output = true;
  row.overflows_inside = options.label_smoothing > 0;  // sums the logits of all classes
  row.forward_sum = row.backward_sum = shape.numel();
  row.formula = [=](const InputValues& in) {
    return Values{dice_ce_formula(shape, in[0], label_values(shape, options), options)};
  };
  return row;
}

// The rows of one loss say its options as those of dice_ce, of which it is a case.
OpRow ce_row(const std::string& variant, const Shape& shape, DiceCeOptions options = {}) {
  options.dice_weight = 0;
  const LossFunction loss = [](const Var& x, const Var& labels, const DiceCeOptions& o) {
    return cross_entropy(x, labels,
                         {.ignore_label = o.dice.ignore_label, .label_smoothing = o.label_smoothing});
  };
  return loss_row("cross_entropy", variant, shape, loss, options);
}

OpRow dice_row(const std::string& variant, const Shape& shape, const DiceOptions& dice = {}) {
  const LossFunction loss = [](const Var& x, const Var& labels, const DiceCeOptions& o) {
    return soft_dice(x, labels, o.dice);
  };
  return loss_row("soft_dice", variant, shape, loss, {.dice = dice, .ce_weight = 0});
}

OpRow dice_ce_row(const std::string& variant, const Shape& shape, const DiceCeOptions& options = {}) {
  return loss_row("dice_ce", variant, shape, dice_ce, options);
}

OpRow softmax_row(const std::string& variant, const Shape& shape, bool log = false) {
  OpRow row{.op = log ? "log_softmax" : "softmax", .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [log](std::span<const Var> in) { return log ? log_softmax(in[0]) : softmax(in[0]); };
  row.wide_output = log;
  if (!log) row.intermediate = {.gradient = 4, .what = "backward reads the stored, rounded probabilities"};
  row.forward_sum = row.backward_sum = shape[1];
  row.formula = [=](const InputValues& in) {
    Values y = softmax_formula(shape, in[0]);
    for (double& p : y) p = log ? std::log(p) : p;
    return y;
  };
  return row;
}

}  // namespace

std::vector<OpRow> loss_rows() {
  std::vector<OpRow> rows{softmax_row("matrix", {3, 5}),
                          softmax_row("1d", {2, 3, 17}),
                          softmax_row("3d", {2, 4, 2, 3, 3}),
                          softmax_row("classes33", {1, 33, 5}),
                          softmax_row("oneClass", {2, 1, 3}),
                          softmax_row("emptyBatch", {0, 3, 4}),
                          softmax_row("oneElement", {1, 1}),
                          softmax_row("oneElement", {1, 1}, true),
                          ce_row("oneElement", {1, 1}),
                          dice_row("smallest", {1, 2}),
                          dice_ce_row("smallest", {1, 2}),
                          softmax_row("matrix", {3, 5}, true),
                          softmax_row("3d", {2, 4, 2, 3, 3}, true),
                          softmax_row("classes33", {1, 33, 5}, true),
                          softmax_row("oneClass", {2, 1, 3}, true),
                          softmax_row("emptyBatch", {0, 3, 4}, true),
                          ce_row("matrix", {5, 3}),
                          ce_row("1d", {2, 3, 17}),
                          ce_row("3d", {2, 4, 3, 2, 3}),
                          ce_row("classes33", {1, 33, 5}),
                          ce_row("oneClass", {2, 1, 3}),
                          ce_row("ignore", {2, 3, 11}, {.dice = {.ignore_label = kIgnored}}),
                          ce_row("smoothing", {2, 3, 7}, {.label_smoothing = 0.1}),
                          dice_row("batch", {2, 3, 17}),
                          dice_row("sample", {2, 3, 3, 5}, {.batch = false}),
                          dice_row("background", {2, 2, 3, 3, 3}, {.background = true}),
                          dice_row("squared", {2, 3, 7}, {.batch = false, .squared = true}),
                          dice_row("smooth1", {1, 5, 9}, {.smooth = 1}),
                          dice_row("matrix", {7, 3}),
                          dice_row("ignore", {2, 3, 11}, {.ignore_label = kIgnored}),
                          dice_ce_row("batch", {2, 3, 17}),
                          dice_ce_row("sample", {2, 3, 3, 2, 3}, {.dice = {.batch = false}}),
                          dice_ce_row("weights", {1, 3, 5, 3}, {.dice_weight = 0.3, .ce_weight = 2}),
                          dice_ce_row("smoothing", {1, 4, 9}, {.label_smoothing = 0.2}),
                          dice_ce_row("classes17", {1, 17, 19}),
                          dice_ce_row("ignore", {2, 3, 3, 5}, {.dice = {.ignore_label = kIgnored}})};
  std::vector<OpRow> large{softmax_row("large6", {2, 6, 11, 12, 33}),
                           softmax_row("large6", {2, 6, 11, 12, 33}, true),
                           dice_ce_row("large6", {2, 6, 11, 12, 33}),
                           dice_ce_row("large20", {1, 20, 11, 12, 33}, {.dice = {.batch = false}})};
  for (OpRow& row : large) {
    row.large = true;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace tandem::testing

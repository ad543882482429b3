// Rows of softmax and the losses. The losses' formulas are the vectors of loss_vectors_test.cpp.
#include "core/ops/loss.h"
#include "tests/ops/formulas.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

constexpr std::int32_t kIgnored = 9;

using LossFunction = std::function<Var(const Var& logits, const Var& labels)>;

// Labels 0, 1, 2, ... modulo the classes; of every fifth voxel the ignored one, if wanted.
Var labels_for(const Var& logits, bool ignore) {
  const Shape& shape = logits.shape();
  const Shape sizes = shape.with(1, 1);
  Values values(static_cast<std::size_t>(sizes.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = ignore && i % 5 == 4 ? kIgnored
                                     : static_cast<double>((i * 7 + 1) % static_cast<std::size_t>(shape[1]));
  const Device device = logits.value().device();
  return logits.tape().constant(Tensor::from_values(sizes, values, DType::kI32, device));
}

OpRow loss_row(const std::string& op, const std::string& variant, const Shape& shape,
               const LossFunction& loss, bool ignore = false) {
  OpRow row{.op = op, .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [=](std::span<const Var> in) { return loss(in[0], labels_for(in[0], ignore)); };
  row.forward_sum = row.backward_sum = shape.numel();
  return row;
}

OpRow softmax_row(const std::string& variant, const Shape& shape) {
  OpRow row{.op = "softmax", .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [](std::span<const Var> in) { return softmax(in[0]); };
  row.forward_sum = row.backward_sum = shape[1];
  row.formula = [shape](const InputValues& in) { return softmax_formula(shape, in[0]); };
  return row;
}

void add_cross_entropy_rows(std::vector<OpRow>& rows) {
  const auto plain = [](const Var& x, const Var& y) { return cross_entropy(x, y); };
  rows.push_back(loss_row("cross_entropy", "matrix", {5, 3}, plain));
  rows.push_back(loss_row("cross_entropy", "1d", {2, 3, 17}, plain));
  rows.push_back(loss_row("cross_entropy", "3d", {2, 4, 3, 2, 3}, plain));
  rows.push_back(loss_row("cross_entropy", "classes33", {1, 33, 5}, plain));
  rows.push_back(loss_row("cross_entropy", "oneClass", {2, 1, 3}, plain));
  rows.push_back(loss_row(
      "cross_entropy", "ignore", {2, 3, 11},
      [](const Var& x, const Var& y) { return cross_entropy(x, y, {.ignore_label = kIgnored}); }, true));
  rows.push_back(loss_row("cross_entropy", "smoothing", {2, 3, 7}, [](const Var& x, const Var& y) {
    return cross_entropy(x, y, {.label_smoothing = 0.1});
  }));
}

void add_dice_rows(std::vector<OpRow>& rows) {
  const auto dice = [](const DiceOptions& options) -> LossFunction {
    return [options](const Var& x, const Var& y) { return soft_dice(x, y, options); };
  };
  rows.push_back(loss_row("soft_dice", "batch", {2, 3, 17}, dice({})));
  rows.push_back(loss_row("soft_dice", "sample", {2, 3, 3, 5}, dice({.batch = false})));
  rows.push_back(loss_row("soft_dice", "background", {2, 2, 3, 3, 3}, dice({.background = true})));
  rows.push_back(loss_row("soft_dice", "squared", {2, 3, 7}, dice({.batch = false, .squared = true})));
  rows.push_back(loss_row("soft_dice", "smooth1", {1, 5, 9}, dice({.smooth = 1})));
  rows.push_back(loss_row("soft_dice", "matrix", {7, 3}, dice({})));
  rows.push_back(loss_row("soft_dice", "ignore", {2, 3, 11}, dice({.ignore_label = kIgnored}), true));
  const auto both = [](const DiceCeOptions& options) -> LossFunction {
    return [options](const Var& x, const Var& y) { return dice_ce(x, y, options); };
  };
  rows.push_back(loss_row("dice_ce", "batch", {2, 3, 17}, both({})));
  rows.push_back(loss_row("dice_ce", "sample", {2, 3, 3, 2, 3}, both({.dice = {.batch = false}})));
  rows.push_back(loss_row("dice_ce", "weights", {1, 3, 5, 3}, both({.dice_weight = 0.3, .ce_weight = 2})));
  rows.push_back(loss_row("dice_ce", "smoothing", {1, 4, 9}, both({.label_smoothing = 0.2})));
  rows.push_back(loss_row("dice_ce", "classes17", {1, 17, 19}, both({})));
  rows.push_back(loss_row("dice_ce", "large6", {2, 6, 11, 12, 33}, both({})));
  rows.back().large = true;
  rows.push_back(loss_row("dice_ce", "large20", {1, 20, 11, 12, 33}, both({.dice = {.batch = false}})));
  rows.back().large = true;
  rows.push_back(loss_row("dice_ce", "ignore", {2, 3, 13}, both({.dice = {.ignore_label = kIgnored}}), true));
}

}  // namespace

std::vector<OpRow> loss_rows() {
  std::vector<OpRow> rows;
  rows.push_back(softmax_row("matrix", {3, 5}));
  rows.push_back(softmax_row("1d", {2, 3, 17}));
  rows.push_back(softmax_row("3d", {2, 4, 2, 3, 3}));
  rows.push_back(softmax_row("classes33", {1, 33, 5}));
  rows.push_back(softmax_row("oneClass", {2, 1, 3}));
  rows.push_back(softmax_row("emptyBatch", {0, 3, 4}));
  rows.push_back(softmax_row("large6", {2, 6, 11, 12, 33}));
  rows.back().large = true;
  add_cross_entropy_rows(rows);
  add_dice_rows(rows);
  return rows;
}

}  // namespace tandem::testing

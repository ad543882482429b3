// Rows of elementwise ops and of ops that move values.
#include <algorithm>

#include "core/ops/elementwise.h"
#include "core/ops/shape_ops.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

constexpr double kGap = 0.01;

using Scalar = double (*)(double, double);

Values zip(const Values& x, const Values& y, Scalar f) {
  Values z(x.size());
  std::ranges::transform(x, y, z.begin(), f);
  return z;
}

OpRow unary_row(const std::string& op, const std::string& variant, const Shape& shape,
                const std::function<Var(const Var&)>& f, Scalar formula) {
  OpRow row{.op = op, .variant = variant, .inputs = {{.shape = shape, .gap = kGap}}};
  row.build = [f](std::span<const Var> in) { return f(in[0]); };
  if (formula != nullptr)
    row.formula = [formula](const InputValues& in) { return zip(in[0], in[0], formula); };
  return row;
}

OpRow binary_row(const std::string& op, const std::string& variant, const Shape& shape,
                 const std::function<Var(const Var&, const Var&)>& f, Scalar formula) {
  OpRow row{.op = op, .variant = variant, .inputs = {{.shape = shape}, {.shape = shape}}};
  row.build = [f](std::span<const Var> in) { return f(in[0], in[1]); };
  if (formula != nullptr)
    row.formula = [formula](const InputValues& in) { return zip(in[0], in[1], formula); };
  return row;
}

OpRow bias_row(const std::string& variant, const Shape& shape) {
  OpRow row{.op = "bias",
            .variant = variant,
            .inputs = {{.shape = shape}, {.shape = {shape.channels()}, .kept = true}}};
  row.build = [](std::span<const Var> in) { return bias(in[0], in[1]); };
  row.backward_sum = std::max<std::int64_t>(1, shape.numel() / std::max<std::int64_t>(1, shape.channels()));
  row.formula = [shape](const InputValues& in) {
    Values y = in[0];
    const auto count = static_cast<std::size_t>(shape.spatial_numel());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += in[1][i / count % in[1].size()];
    return y;
  };
  return row;
}

// On the reference, where all is F64, the cast is the identity; the other backends go to FP32 and, backwards,
// from it.
OpRow cast_row(const std::string& variant, const Shape& shape) {
  OpRow row{.op = "cast", .variant = variant, .inputs = {{.shape = shape}}};
  row.wide_output = true;
  row.build = [](std::span<const Var> in) { return cast(in[0], accumulation_dtype(in[0].dtype())); };
  row.formula = [](const InputValues& in) { return in[0]; };
  return row;
}

OpRow concat_row(const std::string& variant, const std::vector<Shape>& shapes) {
  OpRow row{.op = "concat", .variant = variant};
  for (const Shape& shape : shapes) row.inputs.push_back({.shape = shape});
  row.build = [](std::span<const Var> in) { return concat(in); };
  row.formula = [shapes](const InputValues& in) {
    Values y;
    for (std::int64_t n = 0; n < shapes[0][0]; ++n)
      for (std::size_t i = 0; i < in.size(); ++i) {
        const std::int64_t each = shapes[i].numel() / shapes[i][0];
        y.insert(y.end(), in[i].begin() + n * each, in[i].begin() + (n + 1) * each);
      }
    return y;
  };
  return row;
}

OpRow reshape_row(const std::string& variant, const Shape& shape, std::vector<std::int64_t> sizes) {
  OpRow row{.op = "reshape", .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [sizes](std::span<const Var> in) { return reshape(in[0], sizes); };
  row.formula = [](const InputValues& in) { return in[0]; };  // logical order stays
  return row;
}

OpRow flatten_row(const std::string& variant, const Shape& shape) {
  OpRow row{.op = "flatten", .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [](std::span<const Var> in) { return flatten(in[0]); };
  row.formula = [](const InputValues& in) { return in[0]; };
  return row;
}

void add_scalar_rows(std::vector<OpRow>& rows) {
  const std::vector<std::pair<std::string, Shape>> shapes{
      {"1d", {2, 3, 17}},     {"2d", {1, 5, 3, 7}},        {"3d", {2, 3, 3, 2, 5}},  {"matrix", {3, 17}},
      {"oneElement", {1, 1}}, {"channels33", {1, 33, 17}}, {"emptyBatch", {0, 3, 4}}};
  for (const auto& [variant, shape] : shapes) {
    rows.push_back(unary_row(
        "relu", variant, shape, [](const Var& x) { return relu(x); },
        [](double x, double) { return std::max(x, 0.0); }));
    rows.push_back(unary_row(
        "leaky_relu", variant, shape, [](const Var& x) { return leaky_relu(x); },
        [](double x, double) { return x > 0 ? x : 0.01 * x; }));
    rows.push_back(binary_row(
        "add", variant, shape, [](const Var& x, const Var& y) { return add(x, y); },
        [](double x, double y) { return x + y; }));
    rows.push_back(binary_row(
        "mul", variant, shape, [](const Var& x, const Var& y) { return mul(x, y); },
        [](double x, double y) { return x * y; }));
    rows.push_back(bias_row(variant, shape));
    rows.push_back(cast_row(variant, shape));
  }
  rows.push_back(unary_row(
      "leaky_relu", "slope0", {2, 17}, [](const Var& x) { return leaky_relu(x, 0); },
      [](double x, double) { return std::max(x, 0.0); }));
  rows.push_back(unary_row(
      "leaky_relu", "slope02", {2, 17}, [](const Var& x) { return leaky_relu(x, 0.2); },
      [](double x, double) { return x > 0 ? x : 0.2 * x; }));
  for (const Shape& shape : {Shape{1, 32, 17, 16, 33}, Shape{2, 5, 20, 9, 31}}) {
    const std::string variant = "large" + std::to_string(shape[1]);
    rows.push_back(unary_row(
        "leaky_relu", variant, shape, [](const Var& x) { return leaky_relu(x); }, nullptr));
    rows.push_back(binary_row(
        "add", variant, shape, [](const Var& x, const Var& y) { return add(x, y); }, nullptr));
    rows.push_back(bias_row(variant, shape));
    rows.push_back(concat_row(variant, {shape, shape.with(1, 3)}));
    for (std::size_t i = rows.size() - 4; i < rows.size(); ++i) rows[i].large = true;
  }
  // One Var as both operands: its gradient is the sum of two.
  rows.push_back(unary_row(
      "add", "twice", {2, 3, 5}, [](const Var& x) { return add(x, x); },
      [](double x, double) { return 2 * x; }));
  rows.push_back(unary_row(
      "mul", "square", {2, 3, 5}, [](const Var& x) { return mul(x, x); },
      [](double x, double) { return x * x; }));
}

}  // namespace

std::vector<OpRow> elementwise_rows() {
  std::vector<OpRow> rows;
  add_scalar_rows(rows);
  rows.push_back(concat_row("two", {{2, 3, 5}, {2, 4, 5}}));
  rows.push_back(concat_row("three", {{1, 1, 3, 2, 3}, {1, 17, 3, 2, 3}, {1, 3, 3, 2, 3}}));
  rows.push_back(concat_row("one", {{2, 3, 4, 3}}));
  rows.push_back(concat_row("matrices", {{3, 5}, {3, 1}}));
  rows.push_back(concat_row("noChannels", {{2, 3, 5}, {2, 0, 5}}));
  rows.push_back(concat_row("oneElement", {{1, 1}, {1, 1}}));
  rows.push_back(concat_row("emptyBatch", {{0, 3, 5}, {0, 2, 5}}));
  rows.push_back(reshape_row("toMatrix", {2, 3, 4, 5}, {6, 20}));
  rows.push_back(reshape_row("toVolume", {6, 20}, {2, 3, 4, 5}));
  rows.push_back(reshape_row("volumes", {2, 3, 4, 5}, {2, 5, 3, 4}));
  rows.push_back(reshape_row("inferred", {2, 3, 17}, {17, -1}));
  rows.push_back(reshape_row("vector", {3, 5}, {15}));
  rows.push_back(reshape_row("oneElement", {1, 1}, {1}));
  rows.push_back(reshape_row("emptyBatch", {0, 3, 4}, {0, 12}));
  rows.push_back(flatten_row("1d", {2, 3, 17}));
  rows.push_back(flatten_row("2d", {3, 5, 4, 4}));
  rows.push_back(flatten_row("3d", {1, 3, 2, 3, 5}));
  rows.push_back(flatten_row("matrix", {3, 5}));
  rows.push_back(flatten_row("oneElement", {1, 1, 1}));
  rows.push_back(flatten_row("emptyBatch", {0, 3, 2, 2}));
  return rows;
}

}  // namespace tandem::testing

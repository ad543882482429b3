// Rows of activations, sums and means, and their error rows. Formulas: PyTorch's documentation.
#include <cmath>
#include <numbers>
#include <numeric>

#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

using Scalar = double (*)(double);

struct ActivationCase {
  std::string op, variant;
  std::function<Var(const Var&)> call;
  Scalar formula;
};

double root_two_over_pi() { return std::sqrt(2 / std::numbers::pi); }

const std::vector<ActivationCase>& activation_cases() {
  static const std::vector<ActivationCase> cases{
      {"elu", "", [](const Var& x) { return elu(x); }, [](double x) { return x > 0 ? x : std::exp(x) - 1; }},
      {"elu", "Alpha03", [](const Var& x) { return elu(x, 0.3); },
       [](double x) { return x > 0 ? x : 0.3 * (std::exp(x) - 1); }},
      {"gelu", "", [](const Var& x) { return gelu(x); },
       [](double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }},
      {"gelu_tanh", "", [](const Var& x) { return gelu_tanh(x); },
       [](double x) {
         return 0.5 * x * (1 + std::tanh(root_two_over_pi() * (x + 0.044715 * std::pow(x, 3))));
       }},
      {"silu", "", [](const Var& x) { return silu(x); }, [](double x) { return x / (1 + std::exp(-x)); }},
      {"sigmoid", "", [](const Var& x) { return sigmoid(x); },
       [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"tanh", "", [](const Var& x) { return tanh(x); },
       [](double x) { return (std::exp(x) - std::exp(-x)) / (std::exp(x) + std::exp(-x)); }},
      {"softplus", "", [](const Var& x) { return softplus(x); },
       [](double x) { return std::log(1 + std::exp(x)); }}};
  return cases;
}

// Values of +-8: both tails and the middle. gap: away from ELU's kink.
OpRow activation_row(const ActivationCase& c, const std::string& variant, const Shape& shape) {
  OpRow row{.op = c.op,
            .variant = variant + c.variant,
            .inputs = {{.shape = shape, .gap = 0.01, .low = -8, .high = 8}}};
  row.build = [call = c.call](std::span<const Var> in) { return call(in[0]); };
  row.formula = [formula = c.formula](const InputValues& in) {
    Values y;
    for (const double x : in[0]) y.push_back(formula(x));
    return y;
  };
  return row;
}

OpRow prelu_row(const std::string& variant, const Shape& shape, std::int64_t slopes) {
  OpRow row{.op = "prelu",
            .variant = variant,
            .inputs = {{.shape = shape, .gap = 0.01}, {.shape = {slopes}, .kept = true}}};
  row.build = [](std::span<const Var> in) { return prelu(in[0], in[1]); };
  row.backward_sum = shape.numel();
  row.formula = [shape](const InputValues& in) {
    Values y = in[0];
    const auto voxels = static_cast<std::size_t>(shape.spatial_numel());
    for (std::size_t i = 0; i < y.size(); ++i) y[i] *= y[i] > 0 ? 1 : in[1][i / voxels % in[1].size()];
    return y;
  };
  return row;
}

OpRow sum_row(const std::string& variant, const Shape& shape, bool is_mean) {
  OpRow row{.op = is_mean ? "mean" : "sum", .variant = variant, .inputs = {{.shape = shape}}};
  row.build = [is_mean](std::span<const Var> in) { return is_mean ? mean(in[0]) : sum(in[0]); };
  row.wide_output = true;
  row.forward_sum = shape.numel();
  row.formula = [=](const InputValues& in) {
    const double total = std::accumulate(in[0].begin(), in[0].end(), 0.0);
    return Values{is_mean ? total / static_cast<double>(shape.numel()) : total};
  };
  return row;
}

}  // namespace

std::vector<OpRow> activation_rows() {
  std::vector<OpRow> rows;
  for (const ActivationCase& c : activation_cases()) {
    rows.push_back(activation_row(c, "1d", {2, 3, 17}));
    rows.push_back(activation_row(c, "3d", {1, 5, 3, 2, 7}));
    rows.push_back(activation_row(c, "matrix", {3, 17}));
    rows.push_back(activation_row(c, "oneElement", {1, 1}));
    rows.back().inputs[0].low = 0.1;  // tolerances scale with the largest value: not the tail's
    rows.push_back(activation_row(c, "emptyBatch", {0, 3, 4}));
  }
  rows.push_back(activation_row(activation_cases()[2], "large", {2, 5, 20, 9, 31}));
  rows.back().large = true;
  rows.push_back(prelu_row("channels", {2, 3, 17}, 3));
  rows.push_back(prelu_row("channels3d", {1, 17, 2, 3, 3}, 17));
  rows.push_back(prelu_row("shared", {2, 3, 17}, 1));
  rows.push_back(prelu_row("matrix", {3, 5}, 5));
  rows.push_back(prelu_row("oneChannel", {2, 1, 3, 5}, 1));
  rows.push_back(prelu_row("oneElement", {1, 1}, 1));
  rows.push_back(prelu_row("emptyBatch", {0, 3, 4}, 3));
  rows.push_back(prelu_row("large", {2, 5, 20, 9, 31}, 5));
  rows.back().large = true;
  for (const bool is_mean : {false, true}) {
    rows.push_back(sum_row("1d", {2, 3, 17}, is_mean));
    rows.push_back(sum_row("3d", {1, 5, 3, 2, 7}, is_mean));
    rows.push_back(sum_row("vector", {33}, is_mean));
    rows.push_back(sum_row("oneElement", {1, 1}, is_mean));
    rows.push_back(sum_row("large", {2, 5, 20, 9, 31}, is_mean));
    rows.back().large = true;
  }
  rows.push_back(sum_row("emptyBatch", {0, 3, 4}, false));
  return rows;
}

std::vector<OpErrorRow> activation_errors() {
  std::vector<OpErrorRow> rows{{"prelu", "slopes",
                                [](Tape& t) {
                                  return prelu(var(t, {2, 3, 5}), var(t, {5}));
                                },
                                "[prelu] slope: got F32 [5], expected F32 [3] for input [2, 3, 5]"},
                               {"prelu", "slopes16",
                                [](Tape& t) {
                                  return prelu(var(t, {2, 3, 5}, DType::kF16), var(t, {1}, DType::kF16));
                                },
                                "[prelu] slope: got F16 [1], expected F32 [1] for input [2, 3, 5]"},
                               {"elu", "alpha",
                                [](Tape& t) {
                                  return elu(var(t, {2, 3}), 0);
                                },
                                "[elu] alpha: got 0, expected 0 < alpha < 1e6"},
                               {"sum", "integers",
                                [](Tape& t) {
                                  return sum(var(t, {2, 3}, DType::kI32));
                                },
                                "[sum] dtype of the input: got I32 [2, 3], expected a float dtype"},
                               {"mean", "empty",
                                [](Tape& t) {
                                  return mean(var(t, {0, 3, 4}));
                                },
                                "[mean] nothing to average: got [0, 3, 4], expected at least one element"}};
  for (const ActivationCase& c : activation_cases())
    if (c.variant.empty())
      rows.push_back({c.op, "integers",
                      [call = c.call](Tape& t) {
                        return call(var(t, {2, 3}, DType::kI32));
                      },
                      "[" + c.op + "] dtype of the input: got I32 [2, 3], expected a float dtype"});
  return rows;
}

}  // namespace tandem::testing

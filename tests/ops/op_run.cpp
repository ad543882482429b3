// Inputs, runs and comparisons of the op table's harness.
#include "tests/ops/op_run.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/autograd/gradcheck.h"
#include "core/base/rng.h"

namespace tandem::testing {
namespace {

struct Tolerance {
  double absolute, relative;
};

// `length`: of the sum behind each value.
Tolerance tolerance_of(DType dtype, std::int64_t length) {
  switch (dtype) {
    case DType::kF16:
      return {1e-3, 2e-3};
    case DType::kBF16:
      return {8e-3, 1.6e-2};
    default:
      return {1e-6 * std::sqrt(static_cast<double>(std::max<std::int64_t>(length, 1))),
              length <= 1 ? 1.3e-6 : 1e-5};
  }
}

DType input_dtype(const OpInput& input, DType dtype) {
  return input.kept ? accumulation_dtype(dtype) : dtype;
}

Values random_values(const OpInput& input, RandomStream& random) {
  Values values(static_cast<std::size_t>(input.shape.numel()));
  if (input.distinct) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (static_cast<double>(i) - static_cast<double>(values.size()) / 2) / 16;
    for (std::size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
    return values;
  }
  for (double& value : values) do
      value = random.uniform(input.low, input.high);
    while (std::abs(value) < input.gap);
  return values;
}

std::string compare_values(const std::string& what, const Values& got, const Values& want,
                           Tolerance tolerance) {
  if (got.size() != want.size())
    return fmt::format("{}: {} values, expected {}", what, got.size(), want.size());
  double scale = 1e-30;
  for (const double value : want) scale = std::max(scale, std::abs(value));
  std::string text;
  double worst = 1;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double excess =
        std::abs(got[i] - want[i]) / (tolerance.absolute * scale + tolerance.relative * std::abs(want[i]));
    if (excess <= worst) continue;
    worst = std::isnan(excess) ? INFINITY : excess;
    text = fmt::format("{}[{}]: got {:.9g}, expected {:.9g} (scale {:.3g}, {:.1f} times the tolerance)", what,
                       i, got[i], want[i], scale, excess);
  }
  return text;
}

bool same_bits(const Values& a, const Values& b) {
  return std::ranges::equal(a, b, [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  });
}

}  // namespace

InputValues input_values(const OpRow& row, DType dtype, std::uint64_t seed) {
  for (std::uint64_t attempt = 0; attempt < 1000; ++attempt) {
    RandomStream random(seed, RandomPurpose::kSynthetic, attempt, 0);
    InputValues inputs;
    for (const OpInput& input : row.inputs)
      inputs.push_back(
          Tensor::from_values(input.shape, random_values(input, random), input_dtype(input, dtype))
              .to_values());
    if (!row.accept || row.accept(inputs)) return inputs;
  }
  fail(ErrorKind::kInternal, "no usable inputs for {} {}", row.op, row.variant);
}

OpResult run_row(const OpRow& row, const InputValues& inputs, const Device& device, DType dtype) {
  Tape tape({.device = device, .compute = dtype});
  std::vector<Var> variables;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    variables.push_back(tape.variable(
        Tensor::from_values(row.inputs[i].shape, inputs[i], input_dtype(row.inputs[i], dtype), device)));
  const Var y = row.build(variables);
  RandomStream random(5, RandomPurpose::kSynthetic, 1, 1);
  Values weights(static_cast<std::size_t>(y.shape().numel()));
  // Eighths are exact in every dtype, so all backends see the same output gradient.
  for (double& weight : weights) weight = static_cast<double>(random.below(31) - 15) / 8;
  tape.backward(weighted_sum(y, weights));
  OpResult result{y.shape(), y.dtype(), y.value().to_values(), {}};
  for (const Var& variable : variables) result.gradients.push_back(variable.grad().to_values());
  return result;
}

std::string compare_bits(const OpResult& a, const OpResult& b) {
  if (!same_bits(a.output, b.output)) return "the outputs differ";
  for (std::size_t i = 0; i < a.gradients.size(); ++i)
    if (!same_bits(a.gradients[i], b.gradients[i])) return fmt::format("the gradients of input {} differ", i);
  return "";
}

std::string compare_close(const OpRow& row, const OpResult& got, const OpResult& want, DType dtype) {
  if (got.shape != want.shape)
    return fmt::format("shape {}, expected {}", to_string(got.shape), to_string(want.shape));
  std::string text = compare_values("output", got.output, want.output, tolerance_of(dtype, row.forward_sum));
  for (std::size_t i = 0; i < got.gradients.size() && text.empty(); ++i)
    text = compare_values(fmt::format("gradient {}", i), got.gradients[i], want.gradients[i],
                          tolerance_of(dtype, row.backward_sum));
  return text;
}

}  // namespace tandem::testing

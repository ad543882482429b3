// Inputs, runs and comparisons of the op table's harness.
#include "tests/ops/op_run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>

#include "core/autograd/gradcheck.h"
#include "core/base/rng.h"

namespace tandem::testing {
namespace {

struct Tolerance {
  double absolute, relative;
  double floor;  // half the smallest number
  DType dtype;   // of the result
};

// Of sums of `length` in FP32 arithmetic; FP16's products may be off by 2^-16 (DESIGN 1.3).
Tolerance fp32_tolerance(DType compute, std::int64_t length) {
  const double products = compute == DType::kF16 ? 0x1p-16 : 1e-5;
  return {1e-6 * std::sqrt(static_cast<double>(std::max<std::int64_t>(length, 1))),
          length <= 1 ? 1.3e-6 : products, 0x1p-150, DType::kF32};
}

double unit_roundoff(DType dtype) {
  return dtype == DType::kF16 ? 0x1p-11 : dtype == DType::kBF16 ? 0x1p-8 : 0;
}

// `roundings` to `dtype` of the value itself, `before` of what it is made of.
Tolerance rounded(Tolerance tolerance, DType dtype, double roundings, double before) {
  tolerance.relative += roundings * unit_roundoff(dtype);
  tolerance.absolute += before * unit_roundoff(dtype);
  if (is_16_bit_float(dtype)) tolerance.floor = roundings * (dtype == DType::kF16 ? 0x1p-25 : 0x1p-134);
  tolerance.dtype = dtype;
  return tolerance;
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

// Differences in units of the tolerance; infinite where `want` is or overflows the dtype, and NaN there.
// Which of the two is a matter of how a formula is written: inf - inf, 0 inf.
double excess_over(const Tolerance& tolerance, double scale, double got, double want) {
  if (std::isnan(got)) return std::isfinite(rounded_to(tolerance.dtype, want)) ? INFINITY : 0;
  if (std::isnan(want)) return std::isfinite(got) ? INFINITY : 0;
  if (std::isinf(got)) return got == rounded_to(tolerance.dtype, want) ? 0 : INFINITY;
  if (std::isinf(want)) return INFINITY;
  return std::abs(got - want) /
         (tolerance.absolute * scale + tolerance.relative * std::abs(want) + tolerance.floor);
}

std::string compare_values(const std::string& what, const Values& got, const Values& want,
                           Tolerance tolerance) {
  if (got.size() != want.size())
    return fmt::format("{}: {} values, expected {}", what, got.size(), want.size());
  double scale = 0;
  for (const double value : want)
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  std::string text;
  double worst = 1;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double excess = excess_over(tolerance, scale, got[i], want[i]);
    if (excess <= worst) continue;
    worst = excess;
    text = fmt::format("{}[{}]: got {:.9g}, expected {:.9g} (scale {:.3g}, {:.1f} times the tolerance)", what,
                       i, got[i], want[i], scale, excess);
  }
  return text;
}

// Numbers that `dtype` has.
bool all_are(const Values& values, DType dtype) {
  return std::ranges::all_of(values, [dtype](double x) {
    const double rounded = rounded_to(dtype, x);
    // A leaf that is read twice has a sum of two of them, which may pass the largest.
    return !std::isfinite(rounded) || rounded == x;
  });
}

bool same_bits(const Values& a, const Values& b) {
  return std::ranges::equal(a, b, [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  });
}

}  // namespace

double rounded_to(DType dtype, double x) {
  return Tensor::from_values(Shape{1}, std::array{x}, dtype).to_values()[0];
}

std::set<std::string> declared_ops() {
  std::set<std::string> ops;
  const std::regex declaration(R"(^Var (\w+)\()");
  for (const auto& entry : std::filesystem::directory_iterator(TANDEM_SOURCE_DIR "/core/ops")) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path());
    std::smatch match;
    for (std::string line; std::getline(file, line);)
      if (std::regex_search(line, match, declaration)) ops.insert(match[1]);
  }
  return ops;
}

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

OpResult run_row(const OpRow& row, const InputValues& inputs, const Device& device, DType dtype,
                 std::optional<double> bad_gradient) {
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
  if (bad_gradient && !weights.empty()) weights[weights.size() / 2] = *bad_gradient;
  tape.backward(weighted_sum(y, weights));
  OpResult result{y.shape(), dtype, y.dtype(), y.value().to_values(), {}, {}};
  for (const Var& variable : variables) {
    result.gradients.push_back(variable.grad().to_values());
    result.gradient_dtypes.push_back(variable.grad().dtype());
  }
  return result;
}

std::string compare_bits(const OpResult& a, const OpResult& b) {
  if (!same_bits(a.output, b.output)) return "the outputs differ";
  for (std::size_t i = 0; i < a.gradients.size(); ++i)
    if (!same_bits(a.gradients[i], b.gradients[i])) return fmt::format("the gradients of input {} differ", i);
  return "";
}

std::string compare(const OpRow& row, const OpResult& got, const OpResult& want) {
  if (got.shape != want.shape)
    return fmt::format("shape {}, expected {}", to_string(got.shape), to_string(want.shape));
  const DType compute = got.compute, wide = accumulation_dtype(compute);
  const DType output = row.wide_output ? wide : compute;
  if (got.dtype != output) return fmt::format("output: {}, expected {}", name(got.dtype), name(output));
  const double roundings = is_16_bit_float(want.compute) ? 2 : 1;
  const Tolerance forward = fp32_tolerance(compute, row.forward_sum),
                  backward = fp32_tolerance(compute, row.backward_sum);
  std::string text = compare_values("output", got.output, want.output,
                                    rounded(forward, output, roundings, row.intermediate.output));
  for (std::size_t i = 0; i < got.gradients.size() && text.empty(); ++i) {
    const std::string what = fmt::format("gradient {}", i);
    if (got.gradient_dtypes[i] != wide)
      return fmt::format("{}: {}, expected {}", what, name(got.gradient_dtypes[i]), name(wide));
    const DType dtype = row.inputs[i].kept || row.inputs[i].wide_gradient ? wide : compute;
    if (!all_are(got.gradients[i], dtype)) return fmt::format("{}: not rounded to {}", what, name(dtype));
    text = compare_values(what, got.gradients[i], want.gradients[i],
                          rounded(backward, dtype, roundings, row.intermediate.gradient));
  }
  return text;
}

}  // namespace tandem::testing

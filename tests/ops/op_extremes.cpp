// The changed inputs, and what of their results is comparable.
#include "tests/ops/op_extremes.h"

#include <cmath>
#include <limits>

namespace tandem::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int64_t kSmall = 400;  // elements of all inputs

std::int64_t elements(const OpRow& row) {
  std::int64_t count = 0;
  for (const OpInput& input : row.inputs) count += input.shape.numel();
  return count;
}

std::vector<double> extremes_of(const OpRow& row, DType dtype) {
  const bool half = dtype == DType::kF16;
  const double largest = half || row.overflows_inside ? 65504 : 0x1.fep127;
  const double subnormal = half ? 0x1p-24 : dtype == DType::kBF16 ? 0x1p-133 : 0x1p-149;
  return {kInf, -kInf, std::nan(""), largest, -65504, subnormal, -0.0, half ? 0x1p-14 : 0x1p-126};
}

// Where `got` is NaN, so is `want`: in the half of the elements where the changed one is with `of_two`
// samples, for nothing spreads from one sample to another.
void take_nan(const Values& got, Values& want, bool of_two) {
  for (std::size_t i = of_two ? want.size() / 2 : 0; i < want.size(); ++i)
    if (std::isnan(got[i])) want[i] = got[i];
}

// docs/numerics.md
void flush_subnormal(Values& values) {
  constexpr double kNone = 0x1p-120;  // sums of a few products with operands near 1
  for (double& value : values)
    if (std::fabs(value) < kNone) value = 0;
}

struct Comparison {
  const OpRow& row;
  Device device;
  DType dtype;
  bool flushes;

  // "" or what differs. spreads: NaN may be in more places than in the reference; of_samples: but only in the
  // sample of the changed element.
  std::string difference(const InputValues& inputs, std::optional<double> gradient, bool spreads,
                         bool of_samples) const {
    OpResult got = run_row(row, inputs, device, dtype, gradient);
    OpResult want = run_row(row, inputs, kReferenceDevice, DType::kF64, gradient);
    if (spreads) {
      // The changed element is in the middle: the first of the second sample.
      const bool of_two = row.multiplies_zeros && row.inputs[0].shape[0] == 2 && of_samples;
      take_nan(got.output, want.output, of_two);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        take_nan(got.gradients[i], want.gradients[i], of_two && i == 0);
    }
    if (flushes) {
      for (OpResult* result : {&got, &want}) {
        flush_subnormal(result->output);
        for (Values& values : result->gradients) flush_subnormal(values);
      }
    }
    return compare(row, got, want);
  }
};

}  // namespace

std::vector<std::size_t> extreme_rows() {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < op_table().size(); ++i)
    // Not of two values that leave nothing but rounding of each other.
    if (const std::int64_t count = elements(op_table()[i]);
        count > 0 && count <= kSmall && op_table()[i].variant != "smallest")
      numbers.push_back(i);
  return numbers;
}

std::string extremes_difference(const OpRow& row, const Device& device, DType dtype, bool flushes) {
  const Comparison comparison{row, device, dtype, flushes && dtype == DType::kBF16 && row.is_dot};
  const InputValues inputs = input_values(row, dtype, 0);
  std::string text;
  const auto note = [&](const std::string& difference, const std::string& where, double extreme) {
    if (!difference.empty())
      text += fmt::format("{}, {} with {}: {}\n", name(dtype), where, extreme, difference);
  };
  for (const double extreme : extremes_of(row, dtype)) {
    const bool spreads = row.multiplies_zeros && !std::isfinite(extreme);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      InputValues changed = inputs;
      if (changed[i].empty()) continue;
      const bool kept = row.inputs[i].kept;
      changed[i][changed[i].size() / 2] = rounded_to(kept ? DType::kF32 : dtype, extreme);
      // Scale and shift may be folded with the statistics: inf - inf.
      const bool folded = kept && row.overflows_inside && !std::isfinite(extreme);
      note(comparison.difference(changed, std::nullopt, spreads || folded, i == 0),
           fmt::format("input {}", i), extreme);
    }
    const double gradient = rounded_to(row.wide_output ? DType::kF32 : dtype, extreme);
    note(comparison.difference(inputs, gradient, spreads, true), "gradient", extreme);
  }
  return text;
}

}  // namespace tandem::testing

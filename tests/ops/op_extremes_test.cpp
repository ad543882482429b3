// Extremes of every op: each small row of the op table with one element of one input, or of the output's
// gradient, in turn infinite, NaN, the largest number, subnormal and so on, against the double reference.
// What IEEE 754 and the formulas say of them without a reference is in extremes_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/backends/cpu/isa.h"
#include "tests/ops/op_run.h"

namespace tandem::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int64_t kSmall = 400;  // elements of all inputs

std::int64_t elements(const OpRow& row) {
  std::int64_t count = 0;
  for (const OpInput& input : row.inputs) count += input.shape.numel();
  return count;
}

std::vector<std::size_t> extreme_rows() {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < op_table().size(); ++i)
    // Not of two values that leave nothing but rounding of each other.
    if (const std::int64_t count = elements(op_table()[i]);
        count > 0 && count <= kSmall && op_table()[i].variant != "smallest")
      numbers.push_back(i);
  return numbers;
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

// The dot products of BF16 hardware take subnormal operands for zero and give none (docs/numerics.md).
void flush_subnormal(Values& values) {
  constexpr double kNone = 0x1p-120;  // sums of a few products with operands near 1
  for (double& value : values)
    if (std::fabs(value) < kNone) value = 0;
}

class OpExtremes : public ::testing::TestWithParam<std::size_t> {
 protected:
  const OpRow& row() const { return op_table()[GetParam()]; }
  // "" or what differs between the reference and the CPU. spreads: NaN may be in more places than there;
  // of_samples: but only in the sample of the changed element.
  std::string difference(const InputValues& inputs, DType dtype, std::optional<double> gradient, bool spreads,
                         bool of_samples) const {
    OpResult got = run_row(row(), inputs, kCpuDevice, dtype, gradient);
    OpResult want = run_row(row(), inputs, kReferenceDevice, DType::kF64, gradient);
    if (spreads) {
      // The changed element is in the middle: the first of the second sample.
      const bool of_two = row().multiplies_zeros && row().inputs[0].shape[0] == 2 && of_samples;
      take_nan(got.output, want.output, of_two);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        take_nan(got.gradients[i], want.gradients[i], of_two && i == 0);
    }
    if (dtype == DType::kBF16 && row().is_dot && cpu_target().isa == CpuIsa::kAmx) {
      for (OpResult* result : {&got, &want}) {
        flush_subnormal(result->output);
        for (Values& gradient : result->gradients) flush_subnormal(gradient);
      }
    }
    return compare(row(), got, want);
  }
};

TEST_P(OpExtremes, EqualReference) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const InputValues inputs = input_values(row(), dtype, 0);
    for (const double extreme : extremes_of(row(), dtype)) {
      const bool spreads = row().multiplies_zeros && !std::isfinite(extreme);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        InputValues changed = inputs;
        if (changed[i].empty()) continue;
        const bool kept = row().inputs[i].kept;
        changed[i][changed[i].size() / 2] = rounded_to(kept ? DType::kF32 : dtype, extreme);
        // Scale and shift may be folded with the statistics: inf - inf.
        const bool folded = kept && row().overflows_inside && !std::isfinite(extreme);
        EXPECT_EQ(difference(changed, dtype, std::nullopt, spreads || folded, i == 0), "")
            << name(dtype) << ", input " << i << " with " << extreme;
      }
      const double gradient = rounded_to(row().wide_output ? DType::kF32 : dtype, extreme);
      EXPECT_EQ(difference(inputs, dtype, gradient, spreads, true), "")
          << name(dtype) << ", gradient with " << extreme;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, OpExtremes, ::testing::ValuesIn(extreme_rows()), [](const auto& info) {
  return op_table()[info.param].op + "_" + op_table()[info.param].variant;
});

TEST(OpTableCoverage, EveryOpHasExtremes) {
  std::set<std::string> ops;
  for (const std::size_t number : extreme_rows()) ops.insert(op_table()[number].op);
  EXPECT_EQ(ops, declared_ops());
}

// The smallest legal sizes: no element, or an error row that says what is expected instead; and one element
// (two where fewer have no meaning: a batch's variance, Dice's foreground).
TEST(OpTableCoverage, EveryOpMeetsZeroAndOneElement) {
  std::set<std::string> zero, one;
  for (const OpRow& row : op_table()) {
    const std::int64_t first = row.inputs[0].shape.numel();
    if (first == 0) zero.insert(row.op);
    if (first == 1 || (first == 2 && row.variant == "smallest")) one.insert(row.op);
  }
  for (const OpErrorRow& row : op_error_table())
    if (row.variant == "empty") zero.insert(row.op);
  EXPECT_EQ(zero, declared_ops());
  EXPECT_EQ(one, declared_ops());
}

}  // namespace
}  // namespace tandem::testing

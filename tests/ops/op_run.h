// Runs a row of the op table on a backend: input values, forward, backward of a weighted sum of the output.
#pragma once

#include <optional>
#include <set>

#include "tests/ops/op_table.h"

namespace tandem::testing {

struct OpResult {
  Shape shape;
  DType compute = DType::kF32, dtype = DType::kF32;  // asked for, and of the output
  Values output;
  std::vector<Values> gradients;  // of every input
  std::vector<DType> gradient_dtypes;
};

// Values in [low, high] that fit the row's inputs, rounded to `dtype` (kept inputs to FP32).
InputValues input_values(const OpRow& row, DType dtype, std::uint64_t seed);

// bad_gradient: the value of one element of the output's gradient, in the middle, in place of an ordinary
// one.
OpResult run_row(const OpRow& row, const InputValues& inputs, const Device& device, DType dtype,
                 std::optional<double> bad_gradient = std::nullopt);

// The number of `dtype` nearest to x.
double rounded_to(DType dtype, double x);

// "" or the first difference in bits.
std::string compare_bits(const OpResult& a, const OpResult& b);
// "" or the first thing that is not as the row says: shape, dtype of the output and of the gradients, 16-bit
// gradients that are no 16-bit numbers, or a value beyond abs * scale + rel * |want|, where scale is the
// largest |want|: FP32's tolerance (reliability-ecosystem.md 3), and for a 16-bit result its one rounding
// more (two where `want` is rounded too).
std::string compare(const OpRow& row, const OpResult& got, const OpResult& want);

// Functions `Var name(...)` declared in core/ops.
std::set<std::string> declared_ops();

}  // namespace tandem::testing

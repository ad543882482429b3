// Extremes of every op on a backend: each small row of the op table with one element of one input, or of the
// output's gradient, in turn infinite, NaN, the largest number, subnormal and so on, against the double
// reference. What IEEE 754 and the formulas say of them without a reference is in extremes_test.cpp.
#pragma once

#include "tests/ops/op_run.h"

namespace tandem::testing {

// The rows of the table that are small enough.
std::vector<std::size_t> extreme_rows();

// "" or a line for each difference. flushes: dot products of BF16 take subnormal operands for zero and give
// none.
std::string extremes_difference(const OpRow& row, const Device& device, DType dtype, bool flushes = false);

}  // namespace tandem::testing

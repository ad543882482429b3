// Runs a row of the op table on a backend: input values, forward, backward of a weighted sum of the output.
#pragma once

#include "tests/ops/op_table.h"

namespace tandem::testing {

struct OpResult {
  Shape shape;
  DType dtype = DType::kF32;
  Values output;
  std::vector<Values> gradients;  // of every input, of the accumulation dtype
};

// Values in [low, high] that fit the row's inputs, rounded to `dtype` (kept inputs to FP32).
InputValues input_values(const OpRow& row, DType dtype, std::uint64_t seed);

OpResult run_row(const OpRow& row, const InputValues& inputs, const Device& device, DType dtype);

// "" or the first difference in bits.
std::string compare_bits(const OpResult& a, const OpResult& b);
// "" or the worst excess over the tolerance of `dtype` (reliability-ecosystem.md 3): abs * scale + rel *
// |want|, where scale is the largest |want|.
std::string compare_close(const OpRow& row, const OpResult& got, const OpResult& want, DType dtype);

}  // namespace tandem::testing

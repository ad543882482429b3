// The op table: a row per op and way to call it. The harness (op_table_test.cpp) checks every row on every
// backend and dtype; a function of core/ops without a row, or without an error row, fails it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/autograd/tape.h"
#include "core/base/error.h"

namespace tandem::testing {

using Values = std::vector<double>;  // in logical order
using InputValues = std::vector<Values>;

struct OpInput {
  Shape shape;
  bool kept = false;  // FP32 on every backend (scales, shifts, biases), else the compute dtype
  // The gradient of such a leaf is added up in FP32 and never rounded (weights, factors of a product); else
  // it is rounded once to the input's dtype. That of a kept input is always FP32.
  bool wide_gradient = false;
  double gap = 0;         // no value nearer to 0 than this: away from a kink
  bool distinct = false;  // all values differ by 1/16 at least: no ties for max pooling
  double low = -2, high = 2;
};

// A value on the way that is 16 bits wide by design: roundings that it costs beyond the result's own, in
// units of the largest value.
struct Intermediate {
  double output = 0, gradient = 0;
  std::string what;  // and why
};

struct OpRow {
  std::string op;       // the function of core/ops
  std::string variant;  // letters and digits
  std::vector<OpInput> inputs;
  std::function<Var(std::span<const Var>)> build;
  // The output is FP32 in 16-bit compute (losses, sums); else of the compute dtype, rounded once.
  bool wide_output = false;
  Intermediate intermediate = {};
  // Zeros of a padding or between dilated elements meet the other factor, or are left out: 0 inf is NaN.
  bool multiplies_zeros = false;
  // By dot products of 16-bit operands where the machine has them.
  bool is_dot = false;
  // FP32 overflows inside where the result does not: squares, sums of many of its inputs.
  bool overflows_inside = false;
  // Lengths of the longest sums in forward and in backward: tolerances grow with their root.
  std::int64_t forward_sum = 1, backward_sum = 1;
  // The value in logical order from an independent formula; empty where the op is defined by the reference
  // alone.
  std::function<Values(const InputValues&)> formula;
  // Whether random inputs are usable (fused activations: not near a kink). Empty: all.
  std::function<bool(const InputValues&)> accept;
  // Computed by a vendor library or with sums per thread: bits may change with the number of threads.
  bool threads_may_differ = false;
  // Many blocks, chunks and tiles of the CPU's loops: compared with the reference once, no central
  // differences.
  bool large = false;
};

struct OpErrorRow {
  std::string op, variant;
  std::function<Var(Tape&)> call;
  std::string text;  // Error::text(), exact
};

// An operand of an error row: its values are never read.
inline Var var(Tape& tape, const Shape& shape, DType dtype = DType::kF32) {
  return tape.constant(Tensor(shape, dtype, tape.context().device));
}

const std::vector<OpRow>& op_table();
const std::vector<OpErrorRow>& op_error_table();

// The parts of the table, one file each.
std::vector<OpRow> conv_rows();
std::vector<OpRow> elementwise_rows();
std::vector<OpRow> activation_rows();
std::vector<OpRow> norm_rows();
std::vector<OpRow> pool_rows();
std::vector<OpRow> resize_rows();
std::vector<OpRow> loss_rows();
std::vector<OpErrorRow> activation_errors();
std::vector<OpErrorRow> norm_errors();
std::vector<OpErrorRow> resize_errors();
std::vector<OpRow> segmentation_loss_rows();
std::vector<OpErrorRow> segmentation_loss_errors();
std::vector<OpErrorRow> regression_loss_errors();
std::vector<OpErrorRow> empty_loss_errors();

}  // namespace tandem::testing

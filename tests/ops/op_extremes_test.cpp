// Extremes of every op on the CPU, and that every op meets them and its smallest sizes.
#include "tests/ops/op_extremes.h"

#include <gtest/gtest.h>

#include "core/backends/cpu/isa.h"

namespace tandem::testing {
namespace {

class OpExtremes : public ::testing::TestWithParam<std::size_t> {};

TEST_P(OpExtremes, EqualReference) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    EXPECT_EQ(
        extremes_difference(op_table()[GetParam()], kCpuDevice, dtype, cpu_target().isa == CpuIsa::kAmx), "");
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

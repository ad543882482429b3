// The harness: what must hold of every row of the op table.
#include <gtest/gtest.h>

#include <set>

#include "core/autograd/gradcheck.h"
#include "core/base/parallel.h"
#include "tests/ops/op_run.h"

namespace tandem::testing {
namespace {

// Draws of inputs per row; an op has several rows.
std::uint64_t samples(const OpRow& row) { return row.large ? 1 : 3; }

std::string row_name(const ::testing::TestParamInfo<std::size_t>& info) {
  const OpRow& row = op_table()[info.param];
  return row.op + "_" + row.variant;
}

std::vector<std::size_t> row_numbers(bool with_large) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < op_table().size(); ++i)
    if (with_large || !op_table()[i].large) all.push_back(i);
  return all;
}

class OpTable : public ::testing::TestWithParam<std::size_t> {
 protected:
  const OpRow& row() const { return op_table()[GetParam()]; }
};

TEST_P(OpTable, ReferenceEqualsFormula) {
  for (std::uint64_t seed = 0; row().formula && seed < samples(row()); ++seed) {
    const InputValues inputs = input_values(row(), DType::kF64, seed);
    const OpResult result = run_row(row(), inputs, kReferenceDevice, DType::kF64);
    const Values expected = row().formula(inputs);
    ASSERT_EQ(result.output.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(result.output[i], expected[i], 1e-11) << "element " << i << ", seed " << seed;
  }
}

TEST_P(OpTable, GradientEqualsCentralDifference) {
  for (std::uint64_t seed = 0; seed < samples(row()); ++seed) {
    const InputValues values = input_values(row(), DType::kF64, seed);
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < values.size(); ++i)
      inputs.push_back(Tensor::from_values(row().inputs[i].shape, values[i], DType::kF64, kReferenceDevice));
    const GradcheckResult result = gradcheck(row().build, inputs, {.seed = seed});
    EXPECT_TRUE(result.ok) << result.text << ", seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, OpTable, ::testing::ValuesIn(row_numbers(false)), row_name);

class CpuOpTable : public ::testing::TestWithParam<std::tuple<std::size_t, DType>> {
 protected:
  const OpRow& row() const { return op_table()[std::get<0>(GetParam())]; }
  DType dtype() const { return std::get<1>(GetParam()); }
};

// Forward and gradients against the double reference on the same rounded inputs.
TEST_P(CpuOpTable, EqualsReference) {
  for (std::uint64_t seed = 0; seed < samples(row()); ++seed) {
    const InputValues inputs = input_values(row(), dtype(), seed);
    const OpResult want = run_row(row(), inputs, kReferenceDevice, DType::kF64);
    const OpResult got = run_row(row(), inputs, kCpuDevice, dtype());
    ASSERT_EQ(compare(row(), got, want), "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, CpuOpTable,
                         ::testing::Combine(::testing::ValuesIn(row_numbers(true)),
                                            ::testing::Values(DType::kF32, DType::kF16, DType::kBF16)),
                         [](const auto& info) {
                           const OpRow& row = op_table()[std::get<0>(info.param)];
                           return row.op + "_" + row.variant + "_" +
                                  std::string(name(std::get<1>(info.param)));
                         });

class CpuBits : public OpTable {
 protected:
  void TearDown() override { set_compute_threads(0); }
  OpResult run(DType dtype) const { return run_row(row(), input_values(row(), dtype, 1), kCpuDevice, dtype); }
};

// The same call twice; then on one thread and on two.
TEST_P(CpuBits, DoNotDependOnTheRun) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    set_compute_threads(1);
    const OpResult one = run(dtype);
    EXPECT_EQ(compare_bits(one, run(dtype)), "") << "repeated on one thread, " << name(dtype);
    set_compute_threads(2);
    const OpResult two = run(dtype);
    EXPECT_EQ(compare_bits(two, run(dtype)), "") << "repeated on two threads, " << name(dtype);
    EXPECT_EQ(row().threads_may_differ ? compare(row(), two, one) : compare_bits(one, two), "")
        << "one against two threads, " << name(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, CpuBits, ::testing::ValuesIn(row_numbers(true)), row_name);

class OpErrors : public ::testing::TestWithParam<std::size_t> {};

TEST_P(OpErrors, NameBothSides) {
  const OpErrorRow& row = op_error_table()[GetParam()];
  for (const Device& device : {kReferenceDevice, kCpuDevice}) {
    Tape tape({.device = device});
    try {
      row.call(tape);
      FAIL() << "no error on " << name(device);
    } catch (const Error& error) {
      EXPECT_EQ(error.text(), row.text);
      EXPECT_EQ(error.kind(), ErrorKind::kShape);
    }
  }
}

std::vector<std::size_t> error_numbers() {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < op_error_table().size(); ++i) all.push_back(i);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, OpErrors, ::testing::ValuesIn(error_numbers()), [](const auto& info) {
  return op_error_table()[info.param].op + "_" + op_error_table()[info.param].variant;
});

// A tolerance beyond the result's own rounding has its reason beside it.
TEST(OpTableCoverage, IntermediatesAreNamed) {
  for (const OpRow& row : op_table())
    EXPECT_EQ(row.intermediate.what.empty(), row.intermediate.output + row.intermediate.gradient == 0)
        << row.op << " " << row.variant;
}

TEST(OpTableCoverage, EveryOpHasARowAndAnErrorRow) {
  std::set<std::string> rows, errors;
  for (const OpRow& row : op_table()) rows.insert(row.op);
  for (const OpErrorRow& row : op_error_table()) errors.insert(row.op);
  EXPECT_EQ(rows, declared_ops());
  EXPECT_EQ(errors, declared_ops());
}

}  // namespace
}  // namespace tandem::testing

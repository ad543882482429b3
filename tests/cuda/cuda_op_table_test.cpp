// The op table on the emulated CUDA device, with the tolerances of the CPU: the acceptance test of the CUDA
// backend and of every functor that it launches.
#include <gtest/gtest.h>

#include "core/backends/cuda/kernel_list.h"
#include "tests/cuda/emulator.h"
#include "tests/ops/op_extremes.h"

namespace tandem::testing {
namespace {

constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

std::string name_of(std::size_t number) { return op_table()[number].op + "_" + op_table()[number].variant; }

std::vector<std::size_t> all_rows() {
  std::vector<std::size_t> numbers(op_table().size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  return numbers;
}

class CudaOpTable : public ::testing::TestWithParam<std::tuple<std::size_t, DType>> {
 protected:
  void SetUp() override { forget_device_memory(); }
};

// Forward and gradients against the double reference on the same rounded inputs; a repetition has the same
// bits.
TEST_P(CudaOpTable, EqualsReference) {
  const OpRow& row = op_table()[std::get<0>(GetParam())];
  const DType dtype = std::get<1>(GetParam());
  for (std::uint64_t seed = 0; seed < (row.large ? 1 : 3); ++seed) {
    const InputValues inputs = input_values(row, dtype, seed);
    const OpResult want = run_row(row, inputs, kReferenceDevice, DType::kF64);
    const OpResult got = run_row(row, inputs, emulated_device(), dtype);
    ASSERT_EQ(compare(row, got, want), "") << "seed " << seed;
    if (seed > 0 || row.large) continue;
    EXPECT_EQ(compare_bits(got, run_row(row, inputs, emulated_device(), dtype)), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Emulator, CudaOpTable,
                         ::testing::Combine(::testing::ValuesIn(all_rows()), ::testing::ValuesIn(kDTypes)),
                         [](const auto& info) {
                           return name_of(std::get<0>(info.param)) + "_" +
                                  std::string(name(std::get<1>(info.param)));
                         });

class CudaExtremes : public ::testing::TestWithParam<std::size_t> {};

TEST_P(CudaExtremes, EqualReference) {
  for (const DType dtype : kDTypes) {
    forget_device_memory();
    EXPECT_EQ(extremes_difference(op_table()[GetParam()], emulated_device(), dtype), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Emulator, CudaExtremes, ::testing::ValuesIn(extreme_rows()),
                         [](const auto& info) { return name_of(info.param); });

// Kernels with tests of their own, over all their types: cuda_backend_test.cpp and cuda_scopes_test.cpp.
bool has_own_test(std::string_view kernel) {
  for (const std::string_view start : {"Map<", "MoveBox<", "Transpose<", "OptimizerUpdate<", "LayerNorm"})
    if (kernel.starts_with(start)) return true;
  return kernel == "GradientSums" || kernel == "ColumnSums<Mixed>";
}

// No kernel of the list is without a test.
TEST(CudaOpTableCoverage, EveryKernelIsLaunched) {
  const std::vector<std::int64_t> before = emulator().launches();
  for (const OpRow& row : op_table())
    for (const DType dtype : kDTypes)
      if (!row.large) run_row(row, input_values(row, dtype, 0), emulated_device(), dtype);
  std::string never;
  for (std::size_t id = 0; id < before.size(); ++id)
    if (emulator().launches()[id] == before[id] && !has_own_test(cuda::kKernelNames[id]))
      never += std::string(cuda::kKernelNames[id]) + "\n";
  EXPECT_EQ(never, "");
}

}  // namespace
}  // namespace tandem::testing

// The FP16 split: exact for every value, and a matmul through it against double. Convolutions:
// tiles_test.cpp.
#include "core/backends/cpu/split.h"

#include <limits>

#include "core/backends/cpu/gemm.h"
#include "tests/cpu/conv_oracle.h"

namespace tandem::testing {
namespace {

Half half_of(unsigned bits) { return Half{static_cast<std::uint16_t>(bits)}; }

bool is_subnormal(BFloat16 value) { return (value.bits & 0x7f80u) == 0 && (value.bits & 0x7fu) != 0; }

TEST(Split, IsExactForEveryFp16Value) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = to_float(half_of(bits));
    const SplitHalf parts = split(half_of(bits));
    if (!std::isfinite(value)) {
      EXPECT_EQ(std::isnan(to_float(parts.hi)), std::isnan(value));
      EXPECT_TRUE(std::isnan(value) || to_float(parts.hi) == value);
      EXPECT_EQ(to_float(parts.lo), 0.0f);
      continue;
    }
    ASSERT_EQ(static_cast<double>(to_float(parts.hi)) + to_float(parts.lo), value) << bits;
    ASSERT_LE(std::fabs(to_float(parts.lo)), std::fabs(value) * 0x1p-8) << bits;
    ASSERT_FALSE(is_subnormal(parts.hi) || is_subnormal(parts.lo)) << bits << ": AMX would flush it";
  }
}

TEST(Split, KernelsOfEveryLevelAgree) {
  std::vector<std::uint16_t> values(65536 + 3);  // an odd length: the tail of every vector width
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint16_t> hi(values.size()), lo(values.size()), finite(values.size());
  std::vector<float> hi32(values.size()), lo32(values.size()), finite32(values.size());
  const auto n = static_cast<std::int64_t>(values.size());
  for (const Level& level : levels()) {
    level.kernels->split({DType::kBF16, values.data(), hi.data(), lo.data(), finite.data(), n});
    level.kernels->split({DType::kF32, values.data(), hi32.data(), lo32.data(), finite32.data(), n});
    for (std::size_t i = 0; i < values.size(); ++i) {
      const SplitHalf parts = split(half_of(values[i]));
      ASSERT_EQ(hi[i], parts.hi.bits) << level.name << " " << i;
      ASSERT_EQ(lo[i] & 0x7fffu, parts.lo.bits & 0x7fffu)
          << level.name << " " << i;  // the sign of a zero is free
      ASSERT_EQ(finite[i], std::isfinite(to_float(parts.hi)) ? hi[i] : 0) << level.name << " " << i;
      ASSERT_EQ(to_bfloat16(hi32[i]), parts.hi) << level.name << " " << i;
      ASSERT_EQ(lo32[i], to_float(parts.lo)) << level.name << " " << i;
      ASSERT_EQ(to_bfloat16(finite32[i]).bits, finite[i]) << level.name << " " << i;
    }
  }
}

// |got - value| <= (2^-16 + rounding of the stored result) * magnitude: DESIGN 1, point 3.
// With BF16 where the machine computes it (AMX: then FP16 matmuls run this way), and with FP32 holding BF16
// values.
class SplitEngines : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (GetParam() == DType::kBF16 && !cpu_target().avx512_bf16)
      GTEST_SKIP() << "no BF16 instructions (AVX-512 BF16 or AMX) here";
  }
  ConvContext context_{cpu_target(), kernel_table(cpu_isa()), GetParam()};
};

TEST_P(SplitEngines, KeepsInfinityNanAndSubnormals) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor a = Tensor::from_values(
      {6, 1}, std::vector<double>{kInfinity, -kInfinity, NAN, 0x1p-24, 65504, 0}, DType::kF16);
  // 1 has no low part: infinity * 0 must not enter. 1.0009765625 = 1 + 2^-10 has.
  const Tensor b = Tensor::from_values({2, 1}, std::vector<double>{1, 1.0009765625}, DType::kF16);
  const Tensor c({6, 2}, DType::kF32);
  CpuGemm(context_).gemm(Engine::kSplit, {false, true, false}, a, b, c);
  const std::vector<double> got = c.to_values();
  for (const std::size_t n : {0u, 1u}) {
    EXPECT_EQ(got[n], kInfinity);
    EXPECT_EQ(got[2 + n], -kInfinity);
    EXPECT_TRUE(std::isnan(got[4 + n]));
    EXPECT_NEAR(got[6 + n], 0x1p-24, n * 0x1p-34);
    EXPECT_EQ(got[10 + n], 0.0);
  }
  EXPECT_EQ(got[8], 65504);
  const Tensor infinite =
      Tensor::from_values({2, 1}, std::vector<double>{kInfinity, -kInfinity}, DType::kF16);
  CpuGemm(context_).gemm(Engine::kSplit, {false, true, false}, a, infinite, c);
  EXPECT_EQ(c.to_values()[8], kInfinity);
  EXPECT_EQ(c.to_values()[9], -kInfinity);
}

TEST_P(SplitEngines, MatmulAgainstDouble) {
  const std::int64_t m = 19, n = 13, k = 37;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const std::int64_t slab_bytes : {CpuGemm::kSlabBytes, std::int64_t{500}}) {
        const Tensor a = random_tensor(ta ? Shape{k, m} : Shape{m, k}, DType::kF16, 1);
        const Tensor b = random_tensor(tb ? Shape{n, k} : Shape{k, n}, DType::kF16, 2);
        const Tensor c({m, n}, DType::kF32);
        CpuGemm(context_, slab_bytes).gemm(Engine::kSplit, {ta, tb, false}, a, b, c);
        const std::vector<double> av = a.to_values(), bv = b.to_values();
        Sums sums(static_cast<std::size_t>(m * n));
        for (std::int64_t i = 0; i < m * n * k; ++i) {
          const std::int64_t row = i / (n * k), column = i / k % n, r = i % k;
          sums.add(row * n + column, av[static_cast<std::size_t>(ta ? r * m + row : row * k + r)] *
                                         bv[static_cast<std::size_t>(tb ? column * k + r : r * n + column)]);
        }
        expect_within(c.to_values(), sums, 0x1p-22, "matmul");
      }
}

INSTANTIATE_TEST_SUITE_P(Elements, SplitEngines, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tandem::testing

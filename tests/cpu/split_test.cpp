// The FP16 split: exact for every value, and a convolution and a matmul through it against double.
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
// With BF16 where the machine computes it (AMX: then FP16 runs this way), and with FP32 holding BF16 values.
class SplitEngines : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (GetParam() == DType::kBF16 && !cpu_target().avx512_bf16)
      GTEST_SKIP() << "no BF16 instructions (AVX-512 BF16 or AMX) here";
  }
  ConvContext context_{cpu_target(), kernel_table(cpu_isa()), GetParam()};
};

TEST_P(SplitEngines, ConvolutionAgainstDouble) {
  const std::vector<ConvGeometry> list = {
      geometry(3, 2, 5, 7, {4, 5, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
      geometry(3, 1, 32, 17, {3, 4, 5}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}),
      geometry(2, 1, 33, 16, {1, 9, 5}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),
      geometry(1, 2, 16, 3, {1, 1, 17}, {1, 1, 1}),
      geometry(3, 1, 32, 64, {8, 8, 8}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}),
      geometry(3, 1, 48, 16, {4, 4, 36}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
  };
  for (const ConvGeometry& g : list)
    for (const std::int64_t slab_bytes : {CpuConv::kSlabBytes, std::int64_t{4000}}) {
      const CpuConv conv(context_, slab_bytes);
      const Tensor x = random_tensor(data_shape(g, true), DType::kF16, 1);
      const Tensor w = random_tensor(weight_shape(g), DType::kF16, 2);
      const Tensor dy = random_tensor(data_shape(g, false), DType::kF16, 3);
      const Tensor y(data_shape(g, false), DType::kF16), y32(data_shape(g, false), DType::kF32);
      const Tensor dx(data_shape(g, true), DType::kF16), dw = Tensor::zeros(weight_shape(g), DType::kF32);
      const auto sums = [&](Operand target) {
        return oracle(g, target, x.to_values(), w.to_values(), dy.to_values());
      };
      conv.forward(Engine::kSplit, g, x, w, Tensor(), y);
      expect_within(y.to_values(), sums(Operand::kY), 0x1p-11, "forward " + to_string(g));
      conv.forward(Engine::kSplit, g, x, w, Tensor(), y32);
      expect_within(y32.to_values(), sums(Operand::kY), 0x1p-22, "forward to FP32 " + to_string(g));
      conv.backward_data(Engine::kSplit, g, dy, w, dx);
      expect_within(dx.to_values(), sums(Operand::kX), 0x1p-11, "data gradient " + to_string(g));
      conv.backward_weights(Engine::kSplit, g, x, dy, dw);
      expect_within(dw.to_values(), sums(Operand::kW), 0x1p-22, "weight gradient " + to_string(g));
    }
}

TEST_P(SplitEngines, AgreesWithFp32Compute) {
  const ConvGeometry g = geometry(3, 1, 16, 16, {6, 6, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1});
  const Tensor x = random_tensor(data_shape(g, true), DType::kF16, 1);
  const Tensor w = random_tensor(weight_shape(g), DType::kF16, 2);
  const Tensor split_y(data_shape(g, false), DType::kF16), wide_y(data_shape(g, false), DType::kF16);
  const CpuConv conv(context_);
  conv.forward(Engine::kSplit, g, x, w, Tensor(), split_y);
  conv.forward(Engine::kWidened, g, x, w, Tensor(), wide_y);
  expect_close(split_y.to_values(), wide_y.to_values(), 1e-5, 0x1p-10, "split against FP32 compute");
}

TEST_P(SplitEngines, KeepsInfinityNanAndSubnormals) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const ConvGeometry g = geometry(1, 1, 1, 2, {1, 1, 6}, {1, 1, 1});
  const Tensor x = Tensor::from_values(
      {1, 1, 6}, std::vector<double>{kInfinity, -kInfinity, NAN, 0x1p-24, 65504, 0}, DType::kF16);
  // 1 has no low part: infinity * 0 must not enter. 1.0009765625 = 1 + 2^-10 has.
  const Tensor w = Tensor::from_values({2, 1, 1}, std::vector<double>{1, 1.0009765625}, DType::kF16);
  const Tensor y({1, 2, 6}, DType::kF16);
  CpuConv(context_).forward(Engine::kSplit, g, x, w, Tensor(), y);
  const std::vector<double> got = y.to_values();
  for (const std::size_t k : {0u, 6u}) {
    EXPECT_EQ(got[k], kInfinity);
    EXPECT_EQ(got[k + 1], -kInfinity);
    EXPECT_TRUE(std::isnan(got[k + 2]));
    EXPECT_EQ(got[k + 3], 0x1p-24);
    EXPECT_EQ(got[k + 5], 0.0);
  }
  EXPECT_EQ(got[4], 65504);
  EXPECT_EQ(got[10], kInfinity);  // 65568
  const Tensor infinite =
      Tensor::from_values({2, 1, 1}, std::vector<double>{kInfinity, -kInfinity}, DType::kF16);
  CpuConv(context_).forward(Engine::kSplit, g, x, infinite, Tensor(), y);
  EXPECT_EQ(y.to_values()[4], kInfinity);
  EXPECT_EQ(y.to_values()[10], -kInfinity);
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

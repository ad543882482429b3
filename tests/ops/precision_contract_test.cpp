// The FP32 contract of 16-bit ops (research/amp.md 3.2), a test per row with its numbers: what is summed,
// squared or exponentiated never passes through 16 bits. Each test first shows that its input breaks FP16
// arithmetic.
#include <gtest/gtest.h>

#include <cmath>

#include "core/autograd/gradcheck.h"
#include "core/base/rng.h"
#include "core/ops/conv.h"
#include "core/ops/elementwise.h"
#include "core/ops/linear.h"
#include "core/ops/loss.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

constexpr std::int64_t kSide = 128;
constexpr std::int64_t kVoxels = kSide * kSide * kSide;

double rounded(double x, DType dtype) {
  return Tensor::from_values(Shape{1}, std::array{x}, dtype).to_values()[0];
}

// 1 + 1 + ... with a 16-bit accumulator.
double naive_sum_of_ones(std::int64_t count, DType dtype) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum = rounded(sum + 1, dtype);
  return sum;
}

class PrecisionContract : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  Var filled(const Shape& shape, double value) { return values(shape, Values(size(shape), value)); }
  Var values(const Shape& shape, const Values& v) {
    return tape_.variable(Tensor::from_values(shape, v, dtype(), kCpuDevice));
  }
  Var kept(const Shape& shape, double value) {
    return tape_.variable(Tensor::from_values(shape, Values(size(shape), value), DType::kF32, kCpuDevice));
  }
  Var labels(const Shape& shape, std::int32_t label) {
    return tape_.constant(Tensor::from_values(shape, Values(size(shape), label), DType::kI32, kCpuDevice));
  }
  void backward_filled(const Var& y, double dy) {
    tape_.backward(weighted_sum(y, Values(size(y.shape()), dy)));
  }
  static std::size_t size(const Shape& shape) { return static_cast<std::size_t>(shape.numel()); }
  static void expect_all(const Values& got, double want) {
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want) << "element " << i;
  }

  Tape tape_{{.device = kCpuDevice}};
};

TEST_P(PrecisionContract, ChainOfOnesInGemm) {
  EXPECT_EQ(naive_sum_of_ones(4096, dtype()), dtype() == DType::kF16 ? 2048 : 256);
  expect_all(matmul(filled({3, 4096}, 1), filled({4096, 5}, 1)).value().to_values(), 4096);
  expect_all(linear(filled({2, 4096}, 1), filled({3, 4096}, 1), kept({3}, 0)).value().to_values(), 4096);
}

TEST_P(PrecisionContract, ChainOfOnesInConvForwardAndData) {
  const std::int64_t channels = 128, taps = 27;
  const Var x = filled({1, channels, 3, 3, 3}, 1), w = filled({channels, channels, 3, 3, 3}, 1);
  const Var y = conv(x, w, {}, {.padding = {1, 1, 1}});
  const auto centre = [&](const Values& v, std::int64_t c) {
    return v[static_cast<std::size_t>(c * 27 + 13)];
  };
  backward_filled(y, 1);
  for (const std::int64_t c : {0, 77, 127}) {
    EXPECT_EQ(centre(y.value().to_values(), c), channels * taps);
    EXPECT_EQ(centre(x.grad().to_values(), c), channels * taps);  // F32: x is a leaf
  }
}

TEST_P(PrecisionContract, ChainOfOnesInTransposedConv) {
  const Var y =
      conv_transpose(filled({1, 4096, 1, 1, 2}, 1), filled({4096, 2, 1, 1, 2}, 1), {}, {.stride = {1, 1, 2}});
  expect_all(y.value().to_values(), 4096);
}

// Pairs p, -q of products that no 16-bit arithmetic gets right, in whatever order it adds: p = (1 + 2^-6)^2 =
// 1 + 2^-5 + 2^-12 and q = 1 + 2^-5. Products and sums of 256 pairs are exact in FP32: 2^-4.
struct Pairs {
  static constexpr std::int64_t kLength = 512;
  static constexpr double kSum = 0x1p-4;
  static constexpr double kOdd = 1 + 0x1p-6;

  static double first(std::int64_t k) { return k % 2 == 0 ? kOdd : -(1 + 0x1p-5); }
  static double second(std::int64_t k) { return k % 2 == 0 ? kOdd : 1; }
  // [rows, kLength] of the factor, or its transpose.
  static Values matrix(double (*factor)(std::int64_t), std::int64_t rows, bool transposed = false) {
    Values v;
    for (std::int64_t i = 0; i < rows * kLength; ++i)
      v.push_back(factor(transposed ? i / rows : i % kLength));
    return v;
  }
};

TEST_P(PrecisionContract, PairsBreakProductsAndSumsIn16Bits) {
  double rounded_products = 0, rounded_sums = 0;
  for (std::int64_t k = 0; k < Pairs::kLength; ++k) {
    const double product = Pairs::first(k) * Pairs::second(k);
    rounded_products += rounded(product, dtype());
    rounded_sums = rounded(rounded_sums + product, dtype());
  }
  EXPECT_EQ(rounded_products, 0);
  EXPECT_NE(rounded_sums, Pairs::kSum);
  EXPECT_EQ(rounded(Pairs::kSum, dtype()), Pairs::kSum);
}

TEST_P(PrecisionContract, PairsInMatmulAndItsGradients) {
  const std::int64_t m = 3, n = 5, k = Pairs::kLength;
  expect_all(matmul(values({m, k}, Pairs::matrix(Pairs::first, m)),
                    values({k, n}, Pairs::matrix(Pairs::second, n, true)))
                 .value()
                 .to_values(),
             Pairs::kSum);
  // da = dc b^T: the sum runs over b's columns.
  const Var a = filled({m, 2}, 1), b = values({2, k}, Pairs::matrix(Pairs::second, 2));
  tape_.backward(weighted_sum(matmul(a, b), Pairs::matrix(Pairs::first, m)));
  expect_all(a.grad().to_values(), Pairs::kSum);
}

TEST_P(PrecisionContract, PairsInTheOtherGradientOfMatmul) {
  const std::int64_t n = 5, k = Pairs::kLength;  // db = a^T dc: over a's rows
  const Var a = values({k, 2}, Pairs::matrix(Pairs::second, 2, true)), b = filled({2, n}, 1);
  tape_.backward(weighted_sum(matmul(a, b), Pairs::matrix(Pairs::first, n, true)));
  expect_all(b.grad().to_values(), Pairs::kSum);
}

TEST_P(PrecisionContract, PairsInLinearAndItsDataGradient) {
  const std::int64_t n = 3, k = Pairs::kLength;
  expect_all(linear(values({n, k}, Pairs::matrix(Pairs::first, n)),
                    values({5, k}, Pairs::matrix(Pairs::second, 5)), kept({5}, 0))
                 .value()
                 .to_values(),
             Pairs::kSum);
  const Var x = filled({n, 2}, 1), w = values({k, 2}, Pairs::matrix(Pairs::second, 2, true));
  tape_.backward(weighted_sum(linear(x, w, {}), Pairs::matrix(Pairs::first, n)));
  expect_all(x.grad().to_values(), Pairs::kSum);
}

// Channels are summed: of the input in forward, of the output in the data gradient.
TEST_P(PrecisionContract, PairsInConvAndItsDataGradient) {
  const std::int64_t k = Pairs::kLength, voxels = 3;
  const Var y = conv(values({1, k, 1, 1, voxels}, Pairs::matrix(Pairs::first, voxels, true)),
                     values({5, k, 1, 1, 1}, Pairs::matrix(Pairs::second, 5)), {});
  expect_all(y.value().to_values(), Pairs::kSum);
  const Var x = filled({1, 4, 1, 1, voxels}, 1);
  const Var w = values({k, 4, 1, 1, 1}, Pairs::matrix(Pairs::second, 4, true));
  tape_.backward(weighted_sum(conv(x, w, {}), Pairs::matrix(Pairs::first, voxels, true)));
  expect_all(x.grad().to_values(), Pairs::kSum);
}

// Both ways of the transposed convolution: blocks, and overlapping kernels (here of one voxel with a stride).
TEST_P(PrecisionContract, PairsInTransposedConvAndItsDataGradient) {
  const std::int64_t k = Pairs::kLength;
  for (const std::int64_t stride : {2, 3}) {
    const ConvTransposeOptions options{.stride = {1, 1, stride}};
    const Var wide = values({1, k, 1, 1, 1}, Pairs::matrix(Pairs::first, 1));
    const Var y =
        conv_transpose(wide, values({k, 2, 1, 1, 2}, Pairs::matrix(Pairs::second, 4, true)), {}, options);
    expect_all(y.value().to_values(), Pairs::kSum);
    // dx[c] = sum over outputs k and the tap that reads it.
    Tape tape({.device = kCpuDevice});
    const Var x = tape.variable(Tensor::from_values({1, 4, 1, 1, 1}, Values(4, 1), dtype(), kCpuDevice));
    const Var w = tape.variable(
        Tensor::from_values({4, k, 1, 1, 1}, Pairs::matrix(Pairs::second, 4), dtype(), kCpuDevice));
    tape.backward(weighted_sum(conv_transpose(x, w, {}, stride == 2 ? ConvTransposeOptions{} : options),
                               Pairs::matrix(Pairs::first, 1)));
    expect_all(x.grad().to_values(), Pairs::kSum);
  }
}

// The weight gradients of all of them: sums over voxels or rows.
TEST_P(PrecisionContract, PairsInWeightGradients) {
  const std::int64_t k = Pairs::kLength;
  const auto check = [&](const Var& w, const Var& y, const Values& dy) {
    w.tape().backward(weighted_sum(y, dy));
    expect_all(w.grad().to_values(), Pairs::kSum);
  };
  const auto leaf = [&](Tape& tape, const Shape& shape) {
    return tape.variable(Tensor::from_values(shape, Values(size(shape), 1), dtype(), kCpuDevice));
  };
  const auto input = [&](Tape& tape, const Shape& shape, const Values& v) {
    return tape.constant(Tensor::from_values(shape, v, dtype(), kCpuDevice));
  };
  Tape rows({.device = kCpuDevice}), voxels({.device = kCpuDevice}), blocks({.device = kCpuDevice});
  const Var w = leaf(rows, {5, 2});
  check(w, linear(input(rows, {k, 2}, Pairs::matrix(Pairs::second, 2, true)), w, {}),
        Pairs::matrix(Pairs::first, 5, true));
  const Var v = leaf(voxels, {5, 4, 1, 1, 1});
  check(v, conv(input(voxels, {1, 4, 1, 1, k}, Pairs::matrix(Pairs::second, 4)), v, {}),
        Pairs::matrix(Pairs::first, 5));
  const Var u = leaf(blocks, {4, 5, 1, 1, 1});
  check(u, conv_transpose(input(blocks, {1, 4, 1, 1, k}, Pairs::matrix(Pairs::second, 4)), u, {}),
        Pairs::matrix(Pairs::first, 5));
}

// Cross entropy over 128^3 voxels at S = 2^16: dy = 2^-5 each, the sum is 65536.
TEST_P(PrecisionContract, WeightAndBiasGradientsAreFp32) {
  EXPECT_TRUE(std::isinf(rounded(65536, DType::kF16)));
  const Var w = filled({1, 1, 1, 1, 1}, 1), b = kept({1}, 0);
  const Var y = conv(tape_.constant(filled({1, 1, kSide, kSide, kSide}, 1).value()), w, b);
  backward_filled(y, std::ldexp(1.0, -5));
  EXPECT_EQ(w.grad().dtype(), DType::kF32);
  EXPECT_EQ(w.grad().to_values()[0], 65536);
  EXPECT_EQ(b.grad().to_values()[0], 65536);
}

// All taps of a 3^3 kernel: the number of voxels that a tap sees, exact where 16 bits stall.
TEST_P(PrecisionContract, WeightGradientCountsVoxels) {
  const std::int64_t side = 24;
  const Var w = filled({2, 2, 3, 3, 3}, 1);
  const Var y =
      conv(tape_.constant(filled({1, 2, side, side, side}, 1).value()), w, {}, {.padding = {1, 1, 1}});
  backward_filled(y, 8);
  const Values dw = w.grad().to_values();
  for (std::size_t i = 0; i < dw.size(); ++i) {
    double expected = 8;
    for (std::size_t t = i % 27, axis = 0; axis < 3; ++axis, t /= 3)
      expected *= static_cast<double>(t % 3 == 1 ? side : side - 1);
    ASSERT_EQ(dw[i], expected) << i;
  }
}

TEST_P(PrecisionContract, LinearGradientsAreFp32) {
  const Var w = filled({2, 3}, 1), b = kept({2}, 0);
  backward_filled(linear(tape_.constant(filled({8192, 3}, 1).value()), w, b), 16);
  expect_all(w.grad().to_values(), 8192 * 16);
  expect_all(b.grad().to_values(), 8192 * 16);
}

// DESIGN 1: each product of two FP16 values within 2^-16 of itself (BF16: exact in FP32). The weight gradient
// of a single voxel, or of a linear layer of batch 1, is that product, in FP32.
TEST_P(PrecisionContract, ProductsWithinTwoToTheMinus16) {
  RandomStream random(3, RandomPurpose::kSynthetic, 0, 0);
  const std::int64_t n = 64;
  Values x(size({n})), dy(size({n}));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = rounded(random.uniform(-4, 4), dtype());
    dy[i] = rounded(random.uniform(-4, 4), dtype());
  }
  const Var of_conv = filled({n, n, 1, 1, 1}, 0), of_linear = filled({n, n}, 0);
  const Var a = conv(values({1, n, 1, 1, 1}, x), of_conv, {}), b = linear(values({1, n}, x), of_linear, {});
  tape_.backward(add(weighted_sum(a, dy), weighted_sum(b, dy)));
  for (const Var& w : {of_conv, of_linear}) {
    const Values dw = w.grad().to_values();
    for (std::size_t k = 0; k < dy.size(); ++k)
      for (std::size_t c = 0; c < x.size(); ++c)
        ASSERT_NEAR(dw[k * x.size() + c], dy[k] * x[c], std::abs(dy[k] * x[c]) * std::ldexp(1.0, -16))
            << to_string(w.value());
  }
}

// exp overflows FP16 above 11.09; p < 2^-25 is 0, so that a log of it would be -inf for gaps above 17.33.
TEST_P(PrecisionContract, SoftmaxAndCrossEntropyRange) {
  EXPECT_TRUE(std::isinf(rounded(std::exp(12.0), DType::kF16)));
  EXPECT_EQ(rounded(std::exp(-20.0), DType::kF16), 0);
  const Values p = softmax(values({1, 2}, {12, 0})).value().to_values();
  EXPECT_EQ(p[0], 1);
  EXPECT_NEAR(p[1], 1 / (1 + std::exp(12.0)), 1e-7);
  const Values large = softmax(values({1, 2}, {65504, 65504})).value().to_values();
  EXPECT_EQ(large[0], 0.5);
  const auto loss = [&](double label_logit, double other) {
    return cross_entropy(values({1, 2}, {label_logit, other}), labels({1}, 0)).value().to_values()[0];
  };
  EXPECT_FLOAT_EQ(static_cast<float>(loss(0, 20)), 20);
  EXPECT_FLOAT_EQ(static_cast<float>(loss(0, 1024)), 1024);
  EXPECT_NEAR(loss(20, 0), std::exp(-20.0), 1e-7);
}

// A perfect prediction has Dice 1 whatever the number of voxels: 512^2 > 65504 = the largest FP16 number.
TEST_P(PrecisionContract, DiceOf512Squared) {
  EXPECT_TRUE(std::isinf(rounded(512.0 * 512.0, DType::kF16)));
  Values logits(2 * 512 * 512, -60);
  std::fill(logits.begin() + 512 * 512, logits.end(), 60.0);
  const Var loss = soft_dice(values({1, 2, 512, 512}, logits), labels({1, 1, 512, 512}, 1));
  EXPECT_EQ(loss.dtype(), DType::kF32);
  EXPECT_EQ(loss.value().to_values()[0], -1);
}

// A sequential FP32 sum of ones stalls at 2^24. 2^24 + 2^20 voxels: the numerator and the denominator would
// stall together, so half of them are predicted wrongly: D = 2 I / (P + G) with I = n/2, P = n, G = n/2.
TEST(PrecisionContractFp32, DiceBeyondTwoToThe24) {
  const std::int64_t n = (std::int64_t{1} << 24) + (std::int64_t{1} << 20);
  EXPECT_EQ(16777216.0f + 1.0f, 16777216.0f);
  Tape tape({.device = kCpuDevice}, false);
  const Tensor logits({1, 2, n}, DType::kBF16), labels({1, n}, DType::kI32);
  const std::uint16_t low = to_bfloat16(-60).bits, high = to_bfloat16(60).bits;
  auto* bits = static_cast<std::uint16_t*>(logits.raw());
  for (std::int64_t v = 0; v < n; ++v) {
    bits[2 * v] = low;
    bits[2 * v + 1] = high;
    labels.data<std::int32_t>()[v] = v < n / 2 ? 1 : 0;
  }
  const double dice =
      -soft_dice(tape.constant(logits), tape.constant(labels), {.smooth = 0}).value().to_values()[0];
  EXPECT_FLOAT_EQ(static_cast<float>(dice), 2.0f / 3.0f);
}

// The mean over 128^3 voxels: (p - y) / N vanishes in FP16 for |p - y| <= 1/16 without a loss scale, and is
// exact to FP16's own rounding with S = 2^16.
TEST_P(PrecisionContract, CrossEntropyMeanGradient) {
  const double gap = std::log(31.0);  // p of the label: 31/32
  Values logits(2 * size({kVoxels}), 0);
  std::fill(logits.begin(), logits.begin() + kVoxels, gap);
  const Shape shape{1, 2, kSide, kSide, kSide};
  const double p = 1 / (1 + std::exp(-rounded(gap, dtype())));
  EXPECT_EQ(rounded((1 - p) / kVoxels, DType::kF16), 0);
  const Var x = values(shape, logits);
  tape_.backward(cross_entropy(x, labels({1, 1, kSide, kSide, kSide}, 0)), 65536);
  const Values dx = x.grad().to_values();
  const double expected = (p - 1) * 65536 / kVoxels;
  const double step = dtype() == DType::kF16 ? 1e-3 : 8e-3;
  for (const std::int64_t v : {std::int64_t{0}, kVoxels / 2, kVoxels - 1}) {
    EXPECT_NEAR(dx[static_cast<std::size_t>(v)], expected, std::abs(expected) * step);
    EXPECT_NEAR(dx[static_cast<std::size_t>(v + kVoxels)], -expected, std::abs(expected) * step);
  }
}

// 64^3 ones: 262144, infinity in FP16.
TEST_P(PrecisionContract, RowSumsAreFp32) {
  const std::int64_t n = 64 * 64 * 64;
  const Tensor sums = Tensor::zeros(Shape{2}, DType::kF32);
  tape_.backend().reduce_rows(filled({1, 2, 64, 64, 64}, 1).value(), {}, sums);
  expect_all(sums.to_values(), n);
}

INSTANTIATE_TEST_SUITE_P(Cpu, PrecisionContract, ::testing::Values(DType::kF16, DType::kBF16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tandem::testing

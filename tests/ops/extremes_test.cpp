// Extreme values: the largest FP16 number, subnormals, infinities and NaN come out as IEEE 754 says, in every
// dtype.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/ops/conv.h"
#include "core/ops/elementwise.h"
#include "core/ops/linear.h"
#include "core/ops/loss.h"
#include "core/ops/norm.h"
#include "core/ops/pool.h"
#include "core/ops/reduce.h"
#include "core/ops/shape_ops.h"
#include "tests/ops/op_table.h"
#include "tests/ops/test_devices.h"

namespace tandem::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kHalfSubnormal = 0x1p-24;

double rounded(double x, DType dtype) {
  return Tensor::from_values(Shape{1}, std::array{x}, dtype).to_values()[0];
}

struct Target {
  Device device;
  DType dtype;
};

// For test listings.
void PrintTo(const Target& target, std::ostream* out) {
  *out << name(target.device) << " " << name(target.dtype);
}

class Extremes : public ::testing::TestWithParam<Target> {
 protected:
  Extremes() : tape_({.device = GetParam().device}, false) {}

  DType dtype() const { return GetParam().dtype; }
  Var values(const Shape& shape, const Values& v) {
    return tape_.constant(Tensor::from_values(shape, v, dtype(), GetParam().device));
  }
  Var row(const Values& v) { return values({1, static_cast<std::int64_t>(v.size())}, v); }
  Var kept(const Values& v) {
    return tape_.constant(Tensor::from_values(Shape{static_cast<std::int64_t>(v.size())}, v,
                                              accumulation_dtype(dtype()), GetParam().device));
  }
  // Bits matter: -0 is not 0, any NaN is NaN.
  void expect_values(const Var& y, const Values& want) {
    const Values got = y.value().to_values();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double expected = rounded(want[i], dtype());
      EXPECT_TRUE(std::isnan(expected)
                      ? std::isnan(got[i])
                      : std::bit_cast<std::uint64_t>(got[i]) == std::bit_cast<std::uint64_t>(expected))
          << "element " << i << ": got " << got[i] << ", expected " << expected;
    }
  }

  Tape tape_;
};

const Values kSpecial{65504, -65504, kHalfSubnormal, -kHalfSubnormal, 0x1p-14, kInf, -kInf, kNan, 1, -1, 0};

TEST_P(Extremes, Relu) {
  expect_values(relu(row(kSpecial)), {65504, 0, kHalfSubnormal, 0, 0x1p-14, kInf, 0, kNan, 1, 0, 0});
}

TEST_P(Extremes, LeakyRelu) {
  expect_values(leaky_relu(row(kSpecial), 0.5),
                {65504, -32752, kHalfSubnormal, -0x1p-25, 0x1p-14, kInf, -kInf, kNan, 1, -0.5, 0});
}

// Both tails: nothing overflows on the way, and what rounds to a limit is the limit.
TEST_P(Extremes, SmoothActivations) {
  const Values x{65504, -65504, kInf, -kInf, kNan, 0};
  expect_values(sigmoid(row(x)), {1, 0, 1, 0, kNan, 0.5});
  expect_values(tanh(row(x)), {1, -1, 1, -1, kNan, 0});
  expect_values(softplus(row(x)), {65504, 0, kInf, 0, kNan, std::log(2.0)});
  expect_values(elu(row(x)), {65504, -1, kInf, -1, kNan, 0});
  const Values tail{65504, -0.0, kInf, kNan, kNan, 0};  // -inf times 0, as PyTorch
  expect_values(silu(row(x)), tail);
  expect_values(gelu(row(x)), tail);
  expect_values(gelu_tanh(row(x)), tail);
  expect_values(prelu(row(x), kept({0.5})), {65504, -32752, kInf, -kInf, kNan, 0});
  for (const double subnormal : {kHalfSubnormal, -kHalfSubnormal})
    expect_values(prelu(row({subnormal}), kept({1})), {subnormal});
}

// 2^17 gradients of 1 below a learned slope: 131072, beyond FP16.
TEST_P(Extremes, SlopeGradientsAndSumsAreFp32) {
  const Shape shape{1, 1, 131072};
  Tape tape({.device = GetParam().device});
  const Var x = tape.constant(Tensor::from_values(shape, Values(131072, -1), dtype(), GetParam().device));
  const Var slope = tape.variable(
      Tensor::from_values(Shape{1}, std::array{0.5}, accumulation_dtype(dtype()), GetParam().device));
  const Var total = sum(prelu(x, slope));
  EXPECT_EQ(total.value().to_values()[0], -65536);
  EXPECT_EQ(total.dtype(), accumulation_dtype(dtype()));
  tape.backward(total, 1);
  EXPECT_EQ(slope.grad().to_values()[0], -131072);
  EXPECT_EQ(mean(x).value().to_values()[0], -1);
}

TEST_P(Extremes, AddAndMul) {
  const Var x = row({65504, kInf, kNan, kHalfSubnormal, 0x1p-12, kInf, 65504, 1});
  const Var y = row({65504, -kInf, 1, kHalfSubnormal, 0x1p-13, 0, 16, 0x1p-24});
  expect_values(add(x, y), {131008, kNan, kNan, 0x1p-23, 0x1p-12 + 0x1p-13, kInf, 65520, 1 + 0x1p-24});
  expect_values(mul(x, y), {65504.0 * 65504.0, -kInf, kNan, 0x1p-48, 0x1p-25, kNan, 1048064, 0x1p-24});
}

TEST_P(Extremes, Bias) {
  expect_values(bias(row({65504, kInf, kNan}), kept({16, -1, 1})), {65520, kInf, kNan});
}

TEST_P(Extremes, MaxPool) {
  const PoolOptions pairs{.window = {1, 1, 2}};
  expect_values(max_pool(values({1, 1, 12},
                                {kNan, 1, 1, kNan, -kInf, -kInf, kInf, 65504, -65504, kHalfSubnormal, 0, 3}),
                         pairs),
                {kNan, kNan, -kInf, kInf, kHalfSubnormal, 3});
}

TEST_P(Extremes, AvgPoolAccumulatesBeyondHalf) {
  expect_values(avg_pool(values({1, 1, 4}, {65504, 65504, 65504, 65504}), {.window = {1, 1, 4}}), {65504});
}

// One bad voxel spoils its own (n, c) and no other.
TEST_P(Extremes, NormKeepsDamageLocal) {
  for (const double bad : {kNan, kInf, -kInf}) {
    Values x(2 * 2 * 8);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 1 : -1;
    x[11] = bad;  // sample 0, channel 1
    const Values y = instance_norm(values({2, 2, 8}, x), kept({1, 1}), kept({0, 0})).value().to_values();
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(std::isfinite(y[i]), i / 8 != 1) << "element " << i << ", " << bad;
    EXPECT_TRUE(std::isnan(y[11]));
  }
}

TEST_P(Extremes, NormOfConstants) {
  expect_values(instance_norm(values({1, 1, 6}, Values(6, 65504)), kept({3}), kept({0.25})), Values(6, 0.25));
  expect_values(instance_norm(values({1, 1, 2}, {kHalfSubnormal, kHalfSubnormal}), kept({1}), kept({0})),
                {0, 0});
}

TEST_P(Extremes, Softmax) {
  // Rows: [0, -inf], [65504, -65504], [nan, 0], [inf, 0].
  expect_values(softmax(values({4, 2}, {0, -kInf, 65504, -65504, kNan, 0, kInf, 0})),
                {1, 0, 1, 0, kNan, kNan, kNan, kNan});
}

TEST_P(Extremes, MatmulSumsBeyondHalf) {
  const Var ones = values({3, 1}, {1, 1, 1});
  expect_values(matmul(row({65504, 65504, -65504}), ones), {65504});
  expect_values(matmul(row({65504, 65504, 0}), ones), {131008});
  expect_values(matmul(row({kNan, 0, 0}), ones), {kNan});
}

// 1024 of the smallest FP16 numbers: nothing is flushed on the way in, between or out.
TEST_P(Extremes, SubnormalsSurviveProducts) {
  expect_values(matmul(row(Values(1024, kHalfSubnormal)), values({1024, 1}, Values(1024, 1))), {0x1p-14});
  expect_values(matmul(row({kHalfSubnormal, 0}), values({2, 1}, {1, 1})), {kHalfSubnormal});
  const Var w = values({2, 2, 1, 1, 1}, {1, 1, 0.5, 2});
  expect_values(conv(values({1, 2, 1, 1, 1}, {kHalfSubnormal, kHalfSubnormal}), w, {}), {0x1p-23, 0x1.4p-23});
}

TEST_P(Extremes, ConvOverflowsOnlyWhenStored) {
  const Var x = values({1, 3, 1, 1, 2}, {65504, 1, 65504, 2, -65504, 3});
  expect_values(conv(x, values({1, 3, 1, 1, 1}, {1, 1, 1}), {}), {65504, 6});
  expect_values(conv(x, values({1, 3, 1, 1, 1}, {1, 1, 0}), {}), {131008, 3});
}

// A bad voxel reaches the windows that hold it: 3 of 9 in a row, not finite there, untouched elsewhere.
TEST_P(Extremes, ConvKeepsDamageLocal) {
  for (const double bad : {kNan, kInf, -kInf}) {
    Values x(9, 1);
    x[4] = bad;
    const Values y =
        conv(values({1, 1, 1, 1, 9}, x), values({1, 1, 1, 1, 3}, {1, 2, 3}), {}, {.padding = {0, 0, 1}})
            .value()
            .to_values();
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(std::isfinite(y[i]), i < 3 || i > 5) << "voxel " << i << ", " << bad;
    EXPECT_EQ(y[1], 6);
  }
}

TEST_P(Extremes, LossesOfLargeLogits) {
  const Var labels =
      tape_.constant(Tensor::from_values(Shape{1}, std::array{0.0}, DType::kI32, GetParam().device));
  EXPECT_EQ(cross_entropy(row({-65504, 65504}), labels).value().to_values()[0],
            2 * std::abs(rounded(65504, dtype())));
  EXPECT_EQ(cross_entropy(row({65504, -65504}), labels).value().to_values()[0], 0);
  EXPECT_EQ(cross_entropy(row({0, -kInf}), labels).value().to_values()[0], 0);
  EXPECT_EQ(cross_entropy(row({-kInf, 0}), labels).value().to_values()[0], kInf);
}

TEST_P(Extremes, LinearAndConvTranspose) {
  const Var w = values({1, 3}, {1, 1, 1});
  expect_values(linear(row({65504, 65504, -65504}), w, kept({0})), {65504});
  expect_values(linear(row({65504, 65504, 0}), w, kept({-65504})), {65504});
  expect_values(linear(row({kNan, 0, 0}), w, {}), {kNan});
  // Blocks of two: each input voxel alone decides its own two outputs.
  const Var x = values({1, 1, 1, 1, 4}, {65504, kInf, kNan, kHalfSubnormal});
  expect_values(conv_transpose(x, values({1, 1, 1, 1, 2}, {1, 2}), {}, {.stride = {1, 1, 2}}),
                {65504, 131008, kInf, kInf, kNan, kNan, kHalfSubnormal, 2 * kHalfSubnormal});
}

TEST_P(Extremes, MovedValuesKeepTheirBits) {
  const Values special{65504, -65504, kHalfSubnormal, kInf, -kInf, kNan, -0.0, 1};
  const Var x = values({1, 2, 4}, special);
  expect_values(flatten(x), special);
  expect_values(reshape(x, std::array<std::int64_t, 3>{1, 4, 2}), special);
  expect_values(concat(std::array{values({1, 1, 4}, Values(special.begin(), special.begin() + 4)),
                                  values({1, 1, 4}, Values(special.begin() + 4, special.end()))}),
                special);
}

TEST_P(Extremes, DiceOfLargeAndBadLogits) {
  const Var labels =
      tape_.constant(Tensor::from_values(Shape{1, 2}, std::array{1.0, 1.0}, DType::kI32, GetParam().device));
  const auto loss = [&](const Values& logits) {
    return soft_dice(values({1, 2, 2}, logits), labels).value().to_values()[0];
  };
  EXPECT_EQ(loss({-65504, -65504, 65504, 65504}), -1) << "certain and right";
  EXPECT_NEAR(loss({65504, 65504, -65504, -65504}), -5e-6, 1e-9)
      << "certain and wrong: smooth / (2 + smooth)";
  EXPECT_TRUE(std::isnan(loss({kNan, 0, 0, 0})));
  EXPECT_TRUE(std::isnan(dice_ce(values({1, 2, 2}, {kInf, 0, 0, 0}), labels).value().to_values()[0]));
}

// Gradients meet the same values: what is not finite stays so, what is small is not lost.
TEST_P(Extremes, GradientsOfBadAndSmallValues) {
  const Device device = GetParam().device;
  const auto gradient = [&](const Values& x, const Values& dy, auto op) {
    Tape tape({.device = device});
    const Shape shape{1, 1, 1, 1, static_cast<std::int64_t>(x.size())};
    const Var in = tape.variable(Tensor::from_values(shape, x, dtype(), device));
    const Var factor = tape.constant(Tensor::from_values(shape, dy, dtype(), device));
    const Var product = mul(op(in), factor);
    const Var w = tape.constant(Tensor::from_values(Shape{1, static_cast<std::int64_t>(x.size())},
                                                    Values(x.size(), 1), dtype(), device));
    const Var sum = cast(linear(flatten(product), w, {}), accumulation_dtype(dtype()));
    tape.backward(reshape(sum, std::array<std::int64_t, 1>{1}));
    return in.grad().to_values();
  };
  const Values relu_gradient =
      gradient({1, -1, 1, 1}, {kHalfSubnormal, kInf, kInf, kNan}, [](const Var& v) { return relu(v); });
  EXPECT_EQ(relu_gradient[0], kHalfSubnormal);
  EXPECT_EQ(relu_gradient[1], 0);
  EXPECT_EQ(relu_gradient[2], kInf);
  EXPECT_TRUE(std::isnan(relu_gradient[3]));
  const Values conv_gradient = gradient({1, 1, 1}, {kHalfSubnormal, 65504, kInf}, [&](const Var& v) {
    return conv(v, v.tape().constant(Tensor::from_values(Shape{1, 1, 1, 1, 1}, Values{1}, dtype(), device)),
                {});
  });
  EXPECT_EQ(conv_gradient[0], kHalfSubnormal);
  EXPECT_EQ(conv_gradient[1], rounded(65504, dtype()));
  EXPECT_EQ(conv_gradient[2], kInf);
}

std::vector<Device> devices_with_16_bits() {
  std::vector<Device> devices = test_devices();
  std::erase(devices, kReferenceDevice);
  return devices;
}

std::vector<Target> targets() {
  std::vector<Target> all;
  if (std::ranges::count(test_devices(), kReferenceDevice) > 0)
    all.push_back({kReferenceDevice, DType::kF64});
  for (const Device& device : devices_with_16_bits())
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) all.push_back({device, dtype});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Extremes, ::testing::ValuesIn(targets()), [](const auto& info) {
  return device_name(info.param.device) + "_" + std::string(name(info.param.dtype));
});

class AllHalves : public ::testing::TestWithParam<Device> {};

TEST_P(AllHalves, CastRoundsToNearestEven) {
  const Values x{65519.99, 65520, 0x1p-25, 0x1.0001p-25, 1e-8, 1e-7, 2049, 2051, 0.9999, -kInf, 257, 1e39};
  Tape tape({.device = GetParam()}, false);
  const Var single = tape.constant(Tensor::from_values(Shape{1, 12}, x, DType::kF32, GetParam()));
  EXPECT_EQ(cast(single, DType::kF16).value().to_values(),
            (Values{65504, kInf, 0, 0x1p-24, 0, 0x1p-23, 2048, 2052, 1, -kInf, 257, kInf}));
  const Values brain = cast(single, DType::kBF16).value().to_values();
  EXPECT_EQ(brain[0], 65536);
  EXPECT_EQ(brain[10], 256);
  EXPECT_EQ(brain[11], kInf);
}

// Every 16-bit pattern, there and back.
TEST_P(AllHalves, CastToFp32AndBack) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Tape tape({.device = GetParam()}, false);
    const Tensor all(Shape{1, 65536}, dtype);
    auto* bits = static_cast<std::uint16_t*>(all.raw());
    for (std::uint32_t i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
    const Var single = cast(tape.constant(all.to_device(GetParam())), DType::kF32);
    const Tensor wide = single.value().to_device(kCpuDevice);
    const Tensor again = cast(single, dtype).value().to_device(kCpuDevice);
    const Values expected = all.to_values();
    for (std::uint32_t i = 0; i < 65536; ++i) {
      const float value = wide.data<float>()[i];
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(value)) << name(dtype) << " " << i;
        continue;
      }
      ASSERT_EQ(std::bit_cast<std::uint32_t>(value),
                std::bit_cast<std::uint32_t>(static_cast<float>(expected[i])))
          << name(dtype) << " " << i;
      ASSERT_EQ(static_cast<const std::uint16_t*>(again.raw())[i], i) << name(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AllHalves, ::testing::ValuesIn(devices_with_16_bits()),
                         [](const auto& info) { return device_name(info.param); });

}  // namespace
}  // namespace tandem::testing

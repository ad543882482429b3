// The FP32 contract of norms (amp.md 3.2): statistics and reductions in FP32, whatever the input's dtype.
// That of the other ops is precision_contract_test.cpp.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <memory>

#include "core/autograd/gradcheck.h"
#include "core/base/rng.h"
#include "core/ops/norm.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

constexpr std::int64_t kVoxels = std::int64_t{1} << 21;

double rounded_f16(double x) {
  return Tensor::from_values(Shape{1}, std::array{x}, DType::kF16).to_values()[0];
}

// Every norm of n values that belong together, however they lie.
struct NormOf {
  std::string name;
  Shape shape;
  std::function<Var(const Var& x, const Var& scale, const Var& shift)> norm;
};
std::vector<NormOf> norms_of(std::int64_t n) {
  const auto call = [](auto norm) {
    return [norm](const Var& x, const Var& scale, const Var& shift) { return norm(x, scale, shift); };
  };
  return {{"instance_norm", {1, 1, n}, call([](auto&... a) { return instance_norm(a...); })},
          {"batch_norm", {n, 1}, call([](auto&... a) { return batch_norm(a...); })},
          {"group_norm", {1, 2, n / 2}, call([](auto&... a) { return group_norm(a..., 1); })},
          {"layer_norm", {1, n}, call([](auto&... a) { return layer_norm(a...); })}};
}

class NormContract : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  double rounded(double x) const {
    return Tensor::from_values(Shape{1}, std::array{x}, dtype()).to_values()[0];
  }
  // A tape of its own for the next norm.
  void next_tape() { tape_ = std::make_unique<Tape>(Context{.device = kCpuDevice}); }
  Tape& tape() { return *tape_; }
  Var values(const Shape& shape, const Values& v) {
    return tape().variable(Tensor::from_values(shape, v, dtype(), kCpuDevice));
  }
  Var kept(std::int64_t channels, double value) {
    const Values all(static_cast<std::size_t>(channels), value);
    return tape().variable(Tensor::from_values(Shape{channels}, all, DType::kF32, kCpuDevice));
  }

 private:
  std::unique_ptr<Tape> tape_;
};

// The variance of +-512 is 262144.
TEST_P(NormContract, VarianceOf512) {
  EXPECT_TRUE(std::isinf(rounded_f16(512.0 * 512.0)));
  Values x(512);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 512 : -512;
  for (const NormOf& n : norms_of(512)) {
    next_tape();
    const Values y = n.norm(values(n.shape, x), kept(n.shape[1], 1), kept(n.shape[1], 0)).value().to_values();
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], x[i] / 512) << n.name;
  }
}

// A mean far above the deviation, of which the format keeps only the last bit.
TEST_P(NormContract, VarianceIsShifted) {
  const double centre = dtype() == DType::kF16 ? 1000 : 128, half = dtype() == DType::kF16 ? 0.5 : 1;
  ASSERT_EQ(rounded(centre + half), centre + half);
  Values x(4096);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = centre + (i % 2 == 0 ? half : -half);
  for (const NormOf& n : norms_of(4096)) {
    next_tape();
    const Values y = n.norm(values(n.shape, x), kept(n.shape[1], 1), kept(n.shape[1], 0)).value().to_values();
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], i % 2 == 0 ? 1 : -1) << n.name;
  }
}

// The same in FP32, where E[x^2] - E[x]^2 would lose the variance.
TEST(NormContractFp32, VarianceIsShifted) {
  Values x(4096), ones(1, 1), zeros(1, 0);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 4096 + (i % 2 == 0 ? 1 : -1) / 64.0;
  const float square = 4096.0f * 4096.0f;
  EXPECT_EQ(square + 1.0f / 4096, square);  // where E[x^2] would be kept
  Tape tape({.device = kCpuDevice}, false);
  const auto constant = [&](const Shape& shape, const Values& v) {
    return tape.constant(Tensor::from_values(shape, v, DType::kF32, kCpuDevice));
  };
  const Values y =
      instance_norm(constant({1, 1, 4096}, x), constant({1}, ones), constant({1}, zeros)).value().to_values();
  const double expected = 1 / 64.0 / std::sqrt(1 / 4096.0 + 1e-5);
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], i % 2 == 0 ? expected : -expected, 1e-5);
}

// dx = scale / sigma (dy - mean dy - xhat mean(dy xhat)) over the n values, in double.
Values input_gradient(const Values& x, const Values& dy, double scale) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, variance = 0, mean_dy = 0, mean_product = 0;
  for (const double v : x) mean += v / n;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  const double inverse = 1 / std::sqrt(variance + 1e-5);
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_dy += dy[i] / n;
    mean_product += dy[i] * (x[i] - mean) * inverse / n;
  }
  Values dx(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    dx[i] = scale * inverse * (dy[i] - mean_dy - (x[i] - mean) * inverse * mean_product);
  return dx;
}

// FP32 inside, one rounding to the dtype outside.
TEST_P(NormContract, GradientOfTheInputIsRoundedOnce) {
  const double half_step = dtype() == DType::kF16 ? 0x1p-11 : 0x1p-8;
  RandomStream random(11, RandomPurpose::kSynthetic, 0, 0);
  for (const std::int64_t n : {6, 130, 4096}) {
    Values x(static_cast<std::size_t>(n)), dy(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = rounded(3 + 2 * random.normal());
      dy[i] = rounded(random.normal());
    }
    const Values expected = input_gradient(x, dy, 1.5);
    double largest = 0;
    for (const double dx : expected) largest = std::max(largest, std::abs(dx));
    for (const NormOf& norm : norms_of(n)) {
      next_tape();
      const Var input = values(norm.shape, x);
      const std::int64_t channels = norm.shape[1];
      tape().backward(weighted_sum(norm.norm(input, kept(channels, 1.5), kept(channels, 0)), dy));
      const Values dx = input.grad().to_values();
      for (std::size_t i = 0; i < dx.size(); ++i)
        ASSERT_NEAR(dx[i], expected[i], 1.01 * half_step * std::abs(expected[i]) + 1e-5 * largest)
            << norm.name << " of " << n << ", element " << i;
    }
  }
}

// The reductions of norms' backward passes: dshift = sum dy, 2^21 or half of it, and dscale = sum dy xhat.
TEST_P(NormContract, BackwardReducesInFp32) {
  Values x(kVoxels), dy(kVoxels);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = i % 2 == 0 ? 1 : -1;
    dy[i] = i % 2 == 0 ? 2 : 0;
  }
  EXPECT_TRUE(std::isinf(rounded_f16(kVoxels / 2)));
  std::vector<NormOf> norms = norms_of(kVoxels);
  norms.back().shape = {kVoxels / 2, 2};  // many pairs of channels
  for (const NormOf& n : norms) {
    next_tape();
    const std::int64_t channels = n.shape[1], inner = n.shape.numel() / n.shape[0] / channels;
    Values sum(static_cast<std::size_t>(channels)), product(sum.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto c = static_cast<std::size_t>(static_cast<std::int64_t>(i) / inner % channels);
      sum[c] += dy[i];
      product[c] += dy[i] * x[i] / std::sqrt(1 + 1e-5);
    }
    const Var input = values(n.shape, x), scale = kept(channels, 1), shift = kept(channels, 0);
    tape().backward(weighted_sum(n.norm(input, scale, shift), dy));
    EXPECT_EQ(shift.grad().to_values(), sum) << n.name;
    for (std::size_t c = 0; c < sum.size(); ++c)
      EXPECT_NEAR(scale.grad().to_values()[c], product[c], 1e-5 * kVoxels) << n.name;
    // dy = 1 + x: what is left of x are the 1e-5 that stand beside the variance.
    const Values dx = input.grad().to_values();
    for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], 1e-5 * x[i], 2e-6) << n.name << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, NormContract, ::testing::Values(DType::kF16, DType::kBF16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tandem::testing

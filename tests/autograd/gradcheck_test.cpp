// gradcheck finds wrong gradients, and says where.
#include "core/autograd/gradcheck.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/ops/elementwise.h"

namespace tandem {
namespace {

using Values = std::vector<double>;

Tensor tensor(const Shape& shape, const Values& values) {
  return Tensor::from_values(shape, values, DType::kF64, kReferenceDevice);
}

// x^2 with `factor` times the right gradient in element `wrong` (-1: in none).
Var square(const Var& x, double factor, std::int64_t wrong) {
  Values y = x.value().to_values();
  Values slope = y;
  for (std::size_t i = 0; i < y.size(); ++i) {
    slope[i] = 2 * y[i] * (static_cast<std::int64_t>(i) == wrong ? factor : 1.0);
    y[i] *= y[i];
  }
  return x.tape().record("square", tensor(x.shape(), y), {x}, [x, slope](const Tensor& dy) {
    Values dx = dy.to_values();
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] *= slope[i];
    x.accumulate(tensor(x.shape(), dx));
  });
}

TEST(Gradcheck, AcceptsARightGradient) {
  const std::vector<Tensor> inputs{tensor({1, 3}, {0.5, -2, 3})};
  const GradcheckResult result =
      gradcheck([](std::span<const Var> in) { return square(in[0], 1, -1); }, inputs);
  EXPECT_TRUE(result.ok) << result.text;
  EXPECT_EQ(result.text, "");
}

TEST(Gradcheck, NamesTheWrongElement) {
  const std::vector<Tensor> inputs{tensor({1, 3}, {0.5, -2, 3}), tensor({1, 3}, {1, 2, 3})};
  const GradcheckResult result =
      gradcheck([](std::span<const Var> in) { return add(in[0], square(in[1], 1.0001, 1)); }, inputs);
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.text.substr(0, 19), "input 1, element 1:") << result.text;
}

TEST(Gradcheck, FindsAMissingGradient) {
  const std::vector<Tensor> inputs{tensor({1, 2}, {1, 2})};
  const auto detached = [](std::span<const Var> in) {
    return add(mul(in[0], in[0]), in[0].tape().constant(in[0].value()));
  };
  EXPECT_FALSE(gradcheck(detached, inputs).ok);
}

TEST(Gradcheck, FindsNan) {
  const std::vector<Tensor> inputs{tensor({1, 2}, {1, 2})};
  const auto broken = [](std::span<const Var> in) {
    return square(in[0], std::numeric_limits<double>::quiet_NaN(), 0);
  };
  EXPECT_FALSE(gradcheck(broken, inputs).ok);
}

// Above max_elements: along random directions, where one wrong element of many still shows.
TEST(Gradcheck, ChecksLargeInputsAlongDirections) {
  const std::int64_t n = 5000;
  const std::vector<Tensor> inputs{tensor({1, n}, Values(static_cast<std::size_t>(n), 1))};
  const auto function = [](double factor) {
    return [factor](std::span<const Var> in) { return square(in[0], factor, 4321); };
  };
  EXPECT_TRUE(gradcheck(function(1), inputs).ok);
  const GradcheckResult wrong = gradcheck(function(1.5), inputs);
  EXPECT_FALSE(wrong.ok);
  EXPECT_EQ(wrong.text.substr(0, 18), "input 0, direction") << wrong.text;
}

TEST(Gradcheck, WantsF64OnTheReference) {
  const std::vector<Tensor> inputs{Tensor::zeros(Shape{2}, DType::kF32)};
  try {
    gradcheck([](std::span<const Var> in) { return in[0]; }, inputs);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.text(), "[gradcheck] input: got F32 [2] on cpu, expected F64 on reference");
  }
}

}  // namespace
}  // namespace tandem

// exp, log, expm1, log1p, tanh and erf in float against the double ones of the standard library.
#include "core/kernels/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace tandem {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Largest error in units of the last place of the exact result, over every 251st float.
template <class F, class G>
double worst_error(F function, G exact) {
  double worst = 0;
  for (std::uint64_t bits = 0; bits <= 0xffffffffu; bits += 251) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const double wanted = exact(static_cast<double>(x));
    const float rounded = static_cast<float>(wanted), got = function(x);
    if (std::isnan(wanted) || std::isinf(rounded)) {
      EXPECT_EQ(std::isnan(got), std::isnan(wanted)) << x;
      EXPECT_TRUE(std::isnan(got) || got == rounded) << x << ": " << got;
      continue;
    }
    const double above = std::nextafter(std::abs(rounded), kInfinity);
    worst = std::max(worst, std::abs(static_cast<double>(got) - wanted) / (above - std::abs(rounded)));
  }
  return worst;
}

TEST(KernelMath, ExpWithinOneUnit) {
  EXPECT_LE(worst_error([](float x) { return kernels::exp(x); }, [](double x) { return std::exp(x); }), 1.0);
}
TEST(KernelMath, LogWithinOneUnit) {
  EXPECT_LE(worst_error([](float x) { return kernels::log(x); }, [](double x) { return std::log(x); }), 1.0);
}
TEST(KernelMath, TanhWithinTwoUnits) {
  EXPECT_LE(worst_error([](float x) { return kernels::tanh(x); }, [](double x) { return std::tanh(x); }),
            2.0);
}
TEST(KernelMath, ErfWithinTwoUnits) {
  EXPECT_LE(worst_error([](float x) { return kernels::erf(x); }, [](double x) { return std::erf(x); }), 2.0);
}

TEST(KernelMath, Expm1WithinFourUnits) {
  EXPECT_LE(worst_error([](float x) { return kernels::expm1(x); }, [](double x) { return std::expm1(x); }),
            4.0);
}
// Of what is not negative.
TEST(KernelMath, Log1pWithinFourUnits) {
  EXPECT_LE(worst_error([](float x) { return kernels::log1p(std::abs(x)); },
                        [](double x) { return std::log1p(std::abs(x)); }),
            4.0);
}

TEST(KernelMath, SpecialValues) {
  EXPECT_EQ(kernels::exp(-kInfinity), 0.0f);
  EXPECT_EQ(kernels::exp(kInfinity), kInfinity);
  EXPECT_EQ(kernels::exp(0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(kernels::exp(kNan)));
  EXPECT_EQ(kernels::exp(-103.0f), 0x1p-149f);  // the smallest subnormal
  EXPECT_EQ(kernels::exp(-104.0f), 0.0f);
  EXPECT_EQ(kernels::log(0.0f), -kInfinity);
  EXPECT_EQ(kernels::log(-0.0f), -kInfinity);
  EXPECT_EQ(kernels::log(1.0f), 0.0f);
  EXPECT_EQ(kernels::log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(kernels::log(-1.0f)));
  EXPECT_TRUE(std::isnan(kernels::log(kNan)));
  EXPECT_EQ(kernels::tanh(kInfinity), 1.0f);
  EXPECT_EQ(kernels::tanh(-kInfinity), -1.0f);
  EXPECT_TRUE(std::isnan(kernels::tanh(kNan)));
  EXPECT_EQ(kernels::erf(kInfinity), 1.0f);
  EXPECT_EQ(kernels::erf(-kInfinity), -1.0f);
  EXPECT_TRUE(std::isnan(kernels::erf(kNan)));
}

TEST(KernelMath, DoubleIsTheStandardLibrarys) {
  for (const double x : {-3.0, 0.1, 0.7, 12.0}) {
    EXPECT_EQ(kernels::exp(x), std::exp(x));
    EXPECT_EQ(kernels::tanh(x), std::tanh(x));
    EXPECT_EQ(kernels::erf(x), std::erf(x));
    EXPECT_EQ(kernels::expm1(x), std::expm1(x));
    EXPECT_EQ(kernels::log1p(std::abs(x)), std::log1p(std::abs(x)));
    EXPECT_EQ(kernels::log(std::abs(x)), std::log(std::abs(x)));
  }
}

}  // namespace
}  // namespace tandem

// FP16 and BF16 conversions: the number facts of research/amp.md 3.3, and every pattern, its neighbours and
// midpoints.
#include "core/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

float half(double x) { return to_float(to_half(static_cast<float>(x))); }
float brain(double x) { return to_float(to_bfloat16(static_cast<float>(x))); }

TEST(Half, NumberFacts) {
  EXPECT_EQ(to_float(Half{0x7bff}), 65504.0f);
  EXPECT_EQ(half(65519.99), 65504.0f);
  EXPECT_EQ(half(65520), kInf);
  EXPECT_EQ(half(-65520), -kInf);
  EXPECT_EQ(to_float(Half{0x0400}), 0x1p-14f);
  EXPECT_EQ(to_float(Half{0x0001}), 0x1p-24f);
  EXPECT_EQ(half(0x1p-25), 0.0f);
  EXPECT_EQ(half(0x1p-25 * 1.0001), 0x1p-24f);
  EXPECT_EQ(half(1e-8), 0.0f);
  EXPECT_NEAR(half(1e-7), 1.1921e-7, 1e-11);
  EXPECT_NEAR(half(1e-5), 1.00136e-5, 1e-10);
  EXPECT_EQ(half(2049), 2048.0f);
  EXPECT_EQ(half(2051), 2052.0f);
  EXPECT_EQ(half(0.9999), 1.0f);
  EXPECT_FLOAT_EQ(half(0.99975), 0.99951172f);
  EXPECT_EQ(kHalfMax, 65504.0f);
  EXPECT_EQ(half(kHalfOverflow), kInf);
}

TEST(BFloat16, NumberFacts) {
  EXPECT_EQ(brain(257), 256.0f);
  EXPECT_EQ(brain(1 + 0x1p-8), 1.0f);
  EXPECT_EQ(brain(1 + 0x1p-8 + 0x1p-20), 1.0078125f);
  EXPECT_EQ(brain(0.999), 1.0f);
  EXPECT_EQ(brain(0.998), 0.99609375f);
  EXPECT_EQ(brain(65504), 65536.0f);
  EXPECT_NEAR(to_float(BFloat16{0x7f7f}), 3.3895e38f, 1e34f);
  EXPECT_EQ(brain(3.4e38), kInf);
}

// 100 steps of -1e-4 from 1 without a master copy: a 16-bit weight never moves.
TEST(Half, UpdatesAreLostWithoutMasterWeights) {
  float in_half = 1, in_brain = 1, single = 1;
  for (int i = 0; i < 100; ++i) {
    in_half = half(in_half - 1e-4f);
    in_brain = brain(in_brain - 1e-4f);
    single -= 1e-4f;
  }
  EXPECT_EQ(in_half, 1.0f);
  EXPECT_EQ(in_brain, 1.0f);
  EXPECT_FLOAT_EQ(single, 0.98999834f);
}

// The same with all of Kahan's summation in BF16: the lost parts are kept, coarsely.
TEST(BFloat16, KahanSummationKeepsWhatIsLost) {
  float w = 1, compensation = 0;
  for (int i = 0; i < 100; ++i) {
    const float step = brain(brain(-1e-4) - compensation), sum = brain(w + step);
    compensation = brain(brain(sum - w) - step);
    w = sum;
  }
  EXPECT_EQ(w, 0.98828125f);
  EXPECT_NEAR(compensation, -0.0017624, 5e-8);
  EXPECT_NEAR(w - compensation, 0.9900436, 5e-8);
}

// An update is lost below half a step of the weight: |step| / |w| < 2^-12 (weight just below a power of two)
// to 2^-11 (just above) in FP16, 2^-9 to 2^-8 in BF16.
TEST(Half, UpdatesAreLostBelowHalfAStep) {
  const auto is_lost = [](float (*round)(double), double w, double ratio) {
    return round(w + w * ratio) == static_cast<float>(w);
  };
  const double half_low = 2 - 0x1p-10, brain_low = 2 - 0x1p-7;  // the last numbers below 2
  EXPECT_TRUE(is_lost(half, half_low, 0x1p-12));
  EXPECT_FALSE(is_lost(half, half_low, 0x1p-12 * 1.01));
  EXPECT_TRUE(is_lost(half, 1, 0x1p-11));  // a tie to even
  EXPECT_FALSE(is_lost(half, 1, 0x1p-11 * 1.01));
  EXPECT_TRUE(is_lost(brain, brain_low, 0x1p-9));
  EXPECT_FALSE(is_lost(brain, brain_low, 0x1p-9 * 1.01));
  EXPECT_TRUE(is_lost(brain, 1, 0x1p-8));
  EXPECT_FALSE(is_lost(brain, 1, 0x1p-8 * 1.01));
}

TEST(Half, SpecialValues) {
  EXPECT_EQ(to_half(-0.0f).bits, 0x8000);
  EXPECT_EQ(to_half(kInf).bits, 0x7c00);
  EXPECT_EQ(to_half(-kInf).bits, 0xfc00);
  EXPECT_EQ(to_bfloat16(-0.0f).bits, 0x8000);
  EXPECT_EQ(to_bfloat16(kInf).bits, 0x7f80);
  for (const std::uint32_t payload : {0x7f800001u, 0x7fc00000u, 0xff800001u, 0x7fffffffu}) {
    const float nan = std::bit_cast<float>(payload);
    EXPECT_TRUE(std::isnan(to_float(to_half(nan)))) << payload;
    EXPECT_TRUE(std::isnan(to_float(to_bfloat16(nan)))) << payload;
  }
  static_assert(to_half(1.0f).bits == 0x3c00 && to_bfloat16(1.0f).bits == 0x3f80, "usable at compile time");
}

// For every pattern and the next: both come back, just below the midpoint is the lower, just above it the
// upper, and the midpoint itself is the even one. `convert` is to_half or to_bfloat16, `infinity` their first
// non-finite pattern.
template <class Type, class Convert>
void check_every_interval(std::uint16_t infinity, const Convert& convert) {
  for (std::uint16_t bits = 0; bits < infinity; ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    const double low = to_float(Type{bits});
    // Infinity's place on the number line is one step above the largest finite number.
    const double high = next == infinity ? low + (low - to_float(Type{static_cast<std::uint16_t>(bits - 1)}))
                                         : to_float(Type{next});
    const double exact_middle = (low + high) / 2;
    const auto middle = static_cast<float>(exact_middle);
    ASSERT_EQ(static_cast<double>(middle), exact_middle) << bits;
    ASSERT_EQ(convert(static_cast<float>(low)).bits, bits);
    ASSERT_EQ(convert(std::nextafter(middle, 0.0f)).bits, bits);
    ASSERT_EQ(convert(middle).bits, bits % 2 == 0 ? bits : next);
    ASSERT_EQ(convert(std::nextafter(middle, kInf)).bits, next);
    ASSERT_EQ(convert(-middle).bits, (bits % 2 == 0 ? bits : next) | 0x8000);
  }
}

TEST(Half, EveryIntervalRoundsToNearestEven) {
  check_every_interval<Half>(0x7c00, [](float x) { return to_half(x); });
}

TEST(BFloat16, EveryIntervalRoundsToNearestEven) {
  check_every_interval<BFloat16>(0x7f80, [](float x) { return to_bfloat16(x); });
}

}  // namespace
}  // namespace tandem

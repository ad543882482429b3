// exp, log, expm1, log1p, tanh and erf for float that a compiler vectorises: branch-free, no tables, no libm,
// the same bits at every instruction-set level. For double the standard library's. Loops belong to the
// backends.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/host_device.h"

namespace tandem::kernels {

TD_HD std::int32_t float_bits(float x) { return __builtin_bit_cast(std::int32_t, x); }
TD_HD float bits_float(std::int32_t bits) { return __builtin_bit_cast(float, bits); }

// e^r - 1 for |r| <= ln2 / 2, polynomial (Cephes, Moshier).
TD_HD float exp_tail(float r) {
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return r + p * (r * r);
}

// e^x, at most 1 unit in the last place. exp(-inf) = 0, exp(inf) = inf, NaN stays NaN; results below 2^-126
// are rounded to subnormals, below 2^-150 to 0. x = n ln2 + r with |r| <= ln2 / 2.
TD_HD float exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  float r = x - n * 0.693359375f;  // exact: ln2's upper part has 10 bits
  r = r - n * -2.12194440e-4f;
  const float p = 1.0f + exp_tail(r);
  // 2^n in two factors: n reaches -150 and 128, and the last product is the only one that may be subnormal.
  const std::int32_t exponent = float_bits(shifted) - float_bits(kRound);
  const std::int32_t half = exponent >> 1;
  const std::int32_t first = static_cast<std::int32_t>(static_cast<std::uint32_t>(half + 127) << 23);
  const std::int32_t second =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(exponent - half + 127) << 23);
  return p * bits_float(first) * bits_float(second);
}
TD_HD double exp(double x) { return ::exp(x); }

// e^x - 1 without cancellation near 0, at most 4 units in the last place; expm1(-inf) = -1, expm1(inf) = inf,
// NaN stays NaN.
TD_HD float expm1(float x) {
  const float a = x < 0.0f ? -x : x;
  return a < 0.34f ? exp_tail(x) : exp(x) - 1.0f;
}
TD_HD double expm1(double x) { return ::expm1(x); }

// Natural logarithm, at most 1 unit in the last place. log(0) = -inf, log(inf) = inf, negative or NaN: NaN. x
// = m 2^e with m in [1/sqrt2, sqrt2), polynomial in m - 1 (Cephes, Moshier).
TD_HD float log(float x) {
  constexpr std::int32_t kRootHalf = 0x3f3504f3;
  const bool subnormal = x < 1.17549435e-38f;
  const float scaled = subnormal ? x * 8388608.0f : x;
  // Wraps for negative x, whose result is NaN anyway.
  const auto shifted = static_cast<std::int32_t>(static_cast<std::uint32_t>(float_bits(scaled)) -
                                                 static_cast<std::uint32_t>(kRootHalf));
  const std::int32_t exponent = (shifted >> 23) - (subnormal ? 23 : 0);
  const float f = bits_float((shifted & 0x7fffff) + kRootHalf) - 1.0f;
  const float e = static_cast<float>(exponent);
  float p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  const float square = f * f;
  float y = p * (f * square) + e * -2.12194440e-4f;
  y = f + (y - 0.5f * square) + e * 0.693359375f;
  y = x == 0.0f ? -__builtin_inff() : y;
  y = x < 0.0f ? __builtin_nanf("") : y;
  return x < __builtin_inff() ? y : x;  // infinity and NaN
}
TD_HD double log(double x) { return ::log(x); }

// log(1 + x) for x >= 0, exact to a few units in the last place for small x too; log1p(inf) = inf, NaN stays
// NaN. The rounding of 1 + x is undone by the factor (Kahan).
TD_HD float log1p(float x) {
  const float sum = 1.0f + x, rounded = sum - 1.0f;
  const float y = log(sum);
  const float corrected = y * (x / (rounded == 0.0f ? 1.0f : rounded));
  return rounded == 0.0f ? x : (x < __builtin_inff() ? corrected : y);
}
TD_HD double log1p(double x) { return ::log1p(x); }

// Hyperbolic tangent, at most 2 units in the last place; tanh(+-inf) = +-1, NaN stays NaN. Odd polynomial
// below 0.625 (Cephes, Moshier), else 1 - 2 / (e^2|x| + 1).
TD_HD float tanh(float x) {
  const float a = x < 0.0f ? -x : x;
  const float s = x * x;
  float p = -5.70498872745e-3f;
  p = p * s + 2.06390887954e-2f;
  p = p * s - 5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s - 3.33332819422e-1f;
  const float small = p * s * x + x;
  const float large = 1.0f - 2.0f / (exp(2.0f * a) + 1.0f);
  return a < 0.625f ? small : (x < 0.0f ? -large : large);
}
TD_HD double tanh(double x) { return ::tanh(x); }

// Error function, at most 2 units in the last place; erf(+-inf) = +-1, NaN stays NaN. Odd polynomial below
// 0.921875, else 1 - e^q(|x|) (coefficients after N. Juffa's erff).
TD_HD float erf(float x) {
  const float a = x < 0.0f ? -x : x;
  const float s = x * x;
  float p = -5.96761703e-4f;
  p = p * s + 4.99119423e-3f;
  p = p * s - 2.67681349e-2f;
  p = p * s + 1.12819925e-1f;
  p = p * s - 3.76125336e-1f;
  p = p * s + 1.28379166e-1f;
  const float small = p * x + x;
  const float t = a > 4.0f ? 4.0f : a;  // erf(4) rounds to 1
  float q = -1.72853470e-5f;
  q = q * t + 3.83197126e-4f;
  q = q * t - 3.88396438e-3f;
  q = q * t + 2.42546219e-2f;
  q = q * t - 1.06777877e-1f;
  q = q * t - 6.34846687e-1f;
  q = q * t - 1.28717512e-1f;
  const float large = 1.0f - exp(q * t - t);
  return a < 0.921875f ? small : (x < 0.0f ? -large : large);
}
TD_HD double erf(double x) { return ::erf(x); }

}  // namespace tandem::kernels

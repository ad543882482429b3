// An FP16 value as the exact sum of two BF16 values, and the order of the parts in an operand. Matrix
// hardware for BF16 then computes FP16 products to within 2^-16.
#pragma once

#include <cmath>

#include "core/base/half.h"

namespace tandem {

struct SplitHalf {
  BFloat16 hi, lo;
};

// hi = value rounded to BF16 (nearest even), lo = value - hi. split(+-inf) = (+-inf, 0), split(NaN) = (NaN,
// 0).
//
// Exact for every finite FP16 value v. v has at most 11 significant bits and is a multiple of u = 2^(e-10)
// (or of 2^-24 where that is larger), 2^e <= |v| < 2^(e+1); hi keeps 8 of the bits, so |v - hi| <= 2^(e-8) =
// 4u and v - hi is a multiple of u: at most 3 significant bits, a BF16 value. BF16's exponents reach far
// beyond FP16's on both sides: hi cannot overflow, and a non-zero lo is at least 2^-24, so neither part is a
// BF16 subnormal, which AMX would read as 0.
inline SplitHalf split(Half value) {
  const float x = to_float(value);
  const BFloat16 hi = to_bfloat16(x);
  return {hi, std::isfinite(x) ? to_bfloat16(x - to_float(hi)) : BFloat16{}};
}

// A product x * w of two split values is taken as x_hi w_hi + x_lo w_hi + x_hi w_lo: it drops x_lo w_lo, at
// most 2^-16 |x w|. So a reduction over c becomes one over 3 C channels: [hi, lo, finite] of the left operand
// against [hi, finite, lo] of the right one, where `finite` is hi, or 0 where hi is not finite: else inf * 0
// (an infinity against a weight whose lo is 0) would turn an infinite result into NaN.
enum class SplitSide { kLeft, kRight };
inline constexpr int kSplitParts = 3;

}  // namespace tandem

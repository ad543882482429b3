// FP16 and BF16 as storage types: 16 bits and exact conversions (round to nearest, ties to even). No
// arithmetic lives here: every computation is done in float or double (core/kernels), the loops of a backend
// convert.
#pragma once

#include <bit>
#include <cstdint>

namespace tandem {

// IEEE 754 binary16: 1 sign, 5 exponent, 10 mantissa bits; max 65504, min normal 2^-14, min subnormal 2^-24.
struct Half {
  std::uint16_t bits = 0;
  friend bool operator==(Half, Half) = default;
};

// bfloat16: the upper half of a float; max 3.3895e38.
struct BFloat16 {
  std::uint16_t bits = 0;
  friend bool operator==(BFloat16, BFloat16) = default;
};

inline constexpr float kHalfMax = 65504.0f;
inline constexpr float kBFloat16Max = 0x1.fep127f;
// |x| at or above this value rounds to infinity in FP16.
inline constexpr float kHalfOverflow = 65520.0f;

// Rounds to nearest even; |x| >= 65520 becomes infinity, NaN stays NaN (quiet), subnormals are kept.
constexpr Half to_half(float x) {
  const std::uint32_t f = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (f >> 16) & 0x8000u;
  const std::uint32_t a = f & 0x7fffffffu;
  std::uint32_t h = 0;
  if (a > 0x7f800000u) {
    h = 0x7e00u | ((a >> 13) & 0x3ffu);
  } else if (a >= 0x477ff000u) {
    h = 0x7c00u;
  } else if (a >= 0x38800000u) {
    const std::uint32_t r = a - 0x38000000u;  // exponent bias 127 -> 15
    h = (r + 0x0fffu + ((r >> 13) & 1u)) >> 13;
  } else if (a >= 0x33000000u) {
    const std::uint32_t shift = 126u - (a >> 23);  // 14 .. 24
    const std::uint32_t m = (a & 0x7fffffu) | 0x800000u;
    const std::uint32_t half = 1u << (shift - 1u);
    h = (m + half - 1u + ((m >> shift) & 1u)) >> shift;
  }
  return Half{static_cast<std::uint16_t>(sign | h)};
}

// Exact.
constexpr float to_float(Half h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h.bits & 0x8000u) << 16;
  const std::uint32_t a = h.bits & 0x7fffu;
  if (a >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((a & 0x3ffu) << 13));
  if (a >= 0x0400u) return std::bit_cast<float>(sign | ((a << 13) + 0x38000000u));
  const float magnitude = static_cast<float>(a) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

// Rounds to nearest even; NaN stays NaN (quiet).
constexpr BFloat16 to_bfloat16(float x) {
  const std::uint32_t f = std::bit_cast<std::uint32_t>(x);
  if ((f & 0x7fffffffu) > 0x7f800000u) return BFloat16{static_cast<std::uint16_t>((f >> 16) | 0x40u)};
  return BFloat16{static_cast<std::uint16_t>((f + 0x7fffu + ((f >> 16) & 1u)) >> 16)};
}

// Exact.
constexpr float to_float(BFloat16 b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b.bits) << 16);
}

}  // namespace tandem

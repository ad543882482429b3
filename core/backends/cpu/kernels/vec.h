// One vector of floats of the level this file is compiled for, and its exact 16-bit loads and rounding
// stores. Included by the files of this folder only; every function is internal, so that no level's code can
// reach another's.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "core/tensor/dtype.h"

#define TD_INLINE static inline __attribute__((always_inline))

namespace tandem::TD_ISA_NAMESPACE {

#if defined(TD_ISA_LEVEL_v4)
struct Vec {
  static constexpr int kLanes = 16;
  __m512 v;
};
TD_INLINE Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
TD_INLINE void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
TD_INLINE Vec broadcast(const float* p) { return {_mm512_set1_ps(*p)}; }
TD_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// The maskz forms with a full mask: g++ 12 warns of an uninitialised operand in the plain ones.
TD_INLINE Vec load_half(const std::uint16_t* p) {
  return {_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
TD_INLINE void store_half(std::uint16_t* p, Vec a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_maskz_cvtps_ph(0xffff, a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(TD_ISA_LEVEL_v3) && defined(TD_WIDE_LANES)
// v4's vector made of two of v3's: the code for 16 lanes, provable on a machine without AVX-512 (tests only).
struct Vec {
  static constexpr int kLanes = 16;
  __m256 low, high;
};
TD_INLINE Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
TD_INLINE void store(float* p, Vec a) {
  _mm256_storeu_ps(p, a.low);
  _mm256_storeu_ps(p + 8, a.high);
}
TD_INLINE Vec broadcast(const float* p) { return {_mm256_broadcast_ss(p), _mm256_broadcast_ss(p)}; }
TD_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
TD_INLINE Vec load_half(const std::uint16_t* p) {
  const auto* half = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half + 1))};
}
TD_INLINE void store_half(std::uint16_t* p, Vec a) {
  auto* half = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(half, _mm256_cvtps_ph(a.low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(half + 1, _mm256_cvtps_ph(a.high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(TD_ISA_LEVEL_v3)
struct Vec {
  static constexpr int kLanes = 8;
  __m256 v;
};
TD_INLINE Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
TD_INLINE void store(float* p, Vec a) { _mm256_storeu_ps(p, a.v); }
TD_INLINE Vec broadcast(const float* p) { return {_mm256_broadcast_ss(p)}; }
TD_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
TD_INLINE Vec load_half(const std::uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
TD_INLINE void store_half(std::uint16_t* p, Vec a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#else
// Without F16C and FMA: bit code of core/base/half.h, product and sum rounded apart.
struct Vec {
  static constexpr int kLanes = 4;
  __m128 v;
};
TD_INLINE Vec load(const float* p) { return {_mm_loadu_ps(p)}; }
TD_INLINE void store(float* p, Vec a) { _mm_storeu_ps(p, a.v); }
TD_INLINE Vec broadcast(const float* p) { return {_mm_set1_ps(*p)}; }
TD_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm_add_ps(_mm_mul_ps(a.v, b.v), c.v)}; }
TD_INLINE Vec load_half(const std::uint16_t* p) {
  return {
      _mm_setr_ps(to_float(Half{p[0]}), to_float(Half{p[1]}), to_float(Half{p[2]}), to_float(Half{p[3]}))};
}
TD_INLINE void store_half(std::uint16_t* p, Vec a) {
  alignas(16) float values[4];
  _mm_store_ps(values, a.v);
  for (int i = 0; i < 4; ++i) p[i] = to_half(values[i]).bits;
}
#endif

// BF16 by integer arithmetic on float lanes, through g++'s vector types: the same text for every width.
typedef std::uint32_t UintLanes __attribute__((vector_size(Vec::kLanes * 4)));
typedef std::uint16_t HalfLanes __attribute__((vector_size(Vec::kLanes * 2)));

TD_INLINE Vec load_bfloat16(const std::uint16_t* p) {
  HalfLanes half;
  std::memcpy(&half, p, sizeof(half));
  const UintLanes wide = __builtin_convertvector(half, UintLanes) << 16;
  Vec out;
  std::memcpy(&out, &wide, sizeof(out));
  return out;
}
// Rounds to nearest even; NaN stays NaN (quiet). The result lies in the upper halves, the lower ones are
// zero. By pointer: a vector wider than the level's registers has no stable way to be returned.
TD_INLINE void round_to_bfloat16(const Vec& a, UintLanes* rounded) {
  UintLanes f;
  std::memcpy(&f, &a, sizeof(f));
  const UintLanes nearest = f + 0x7fffu + ((f >> 16) & 1u);
  *rounded = ((f & 0x7fffffffu) > 0x7f800000u ? f | 0x400000u : nearest) & 0xffff0000u;
}
TD_INLINE void store_bfloat16(std::uint16_t* p, const Vec& a) {
  UintLanes rounded;
  round_to_bfloat16(a, &rounded);
  const HalfLanes half = __builtin_convertvector(rounded >> 16, HalfLanes);
  std::memcpy(p, &half, sizeof(half));
}

}  // namespace tandem::TD_ISA_NAMESPACE

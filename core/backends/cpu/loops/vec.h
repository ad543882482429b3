// This level's vector of floats and the exact conversions of F16 and BF16 rows. Everything has internal
// linkage, so that no symbol of one level can stand in for another's. Staging of tensors is in stage.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "core/tensor/dtype.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

using Vec = float __attribute__((vector_size(4 * kLanes)));
using IntVec = std::int32_t __attribute__((vector_size(4 * kLanes)));
using LooseVec = float __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
using LooseIntVec = std::int32_t __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
// Half as many doubles, and the floats they come from.
using DoubleVec = double __attribute__((vector_size(4 * kLanes)));
using HalfVec = float __attribute__((vector_size(2 * kLanes)));
using LooseHalfVec = float __attribute__((vector_size(2 * kLanes), aligned(4), may_alias));

// V is Vec or float: one body serves the vectors and the rest of a row.
template <class V>
inline V load(const float* p) {
  if constexpr (sizeof(V) == sizeof(float))
    return *p;
  else
    return *reinterpret_cast<const LooseVec*>(p);
}
template <class V>
inline void store(float* p, V v) {
  if constexpr (sizeof(V) == sizeof(float))
    *p = v;
  else
    *reinterpret_cast<LooseVec*>(p) = v;
}

// Sum of the lanes, pairwise, in a fixed order.
inline float sum_lanes(Vec v) {
  float lane[kLanes];
  store<Vec>(lane, v);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  return lane[0];
}

inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

// One value, branch-free, for the SSE level's loops: see core/base/half.h for the rules.
inline std::uint16_t narrow_half(float x) {
  const std::uint32_t f = bits_of(x);
  const std::int32_t a = static_cast<std::int32_t>(f & 0x7fffffffu);
  const std::uint32_t r = static_cast<std::uint32_t>(a) - 0x38000000u;
  const std::uint32_t normal = (r + 0x0fffu + ((r >> 13) & 1u)) >> 13;
  // Adding 0.5 leaves the subnormal's units at the float's last bit, rounded to nearest even by the addition.
  const std::uint32_t small = bits_of(float_of(static_cast<std::uint32_t>(a)) + 0.5f) - 0x3f000000u;
  const std::uint32_t nan = 0x7e00u | ((static_cast<std::uint32_t>(a) >> 13) & 0x3ffu);
  std::uint32_t h = a < 0x38800000 ? small : normal;
  h = a >= 0x477ff000 ? 0x7c00u : h;
  h = a > 0x7f800000 ? nan : h;
  return static_cast<std::uint16_t>(h | ((f >> 16) & 0x8000u));
}

inline float widen_half(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t a = static_cast<std::uint32_t>(h & 0x7fffu) << 13;
  const std::uint32_t finite = bits_of(float_of(a) * 0x1p112f);
  return float_of(sign | (a >= 0x0f800000u ? a | 0x7f800000u : finite));
}

inline std::uint16_t narrow_bfloat16(float x) {
  const std::uint32_t f = bits_of(x);
  const std::uint32_t rounded = (f + 0x7fffu + ((f >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (f >> 16) | 0x40u;
  return static_cast<std::uint16_t>(static_cast<std::int32_t>(f & 0x7fffffffu) > 0x7f800000 ? nan : rounded);
}

inline void widen_halves(const std::uint16_t* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  constexpr __mmask16 kAll = 0xffff;  // the unmasked forms of g++ 12 warn of their own undefined register
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(
        to + i, _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
#endif
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#endif
  for (; i < n; ++i) to[i] = widen_half(from[i]);
}

inline void narrow_halves(const float* from, std::uint16_t* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  constexpr __mmask16 kAll = 0xffff;
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm512_maskz_cvtps_ph(kAll, _mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; ++i) to[i] = narrow_half(from[i]);
}

inline void widen_bfloat16s(const std::uint16_t* from, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = float_of(static_cast<std::uint32_t>(from[i]) << 16);
}

inline void narrow_bfloat16s(const float* from, std::uint16_t* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = narrow_bfloat16(from[i]);
}

// n elements of `dtype` (F32, F16, BF16) to floats and back; nothing overlaps.
inline void widen(const void* from, DType dtype, float* to, std::int64_t n) {
  if (dtype == DType::kF32)
    __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
  else if (dtype == DType::kF16)
    widen_halves(static_cast<const std::uint16_t*>(from), to, n);
  else
    widen_bfloat16s(static_cast<const std::uint16_t*>(from), to, n);
}
inline void narrow(const float* from, void* to, DType dtype, std::int64_t n) {
  if (dtype == DType::kF32)
    __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
  else if (dtype == DType::kF16)
    narrow_halves(from, static_cast<std::uint16_t*>(to), n);
  else
    narrow_bfloat16s(from, static_cast<std::uint16_t*>(to), n);
}

}  // namespace
}  // namespace tandem::TD_ISA_NAMESPACE

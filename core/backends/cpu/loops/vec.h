// This level's vector of floats and the exact conversions of F16 and BF16 rows. Everything has internal
// linkage, so that no symbol of one level can stand in for another's. Staging of tensors is in stage.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "core/base/half.h"
#include "core/tensor/dtype.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
// The unmasked conversions of g++ 12 warn of their own undefined register.
constexpr __mmask16 kAllLanes = 0xffff;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

using Vec = float __attribute__((vector_size(4 * kLanes)));
using IntVec = std::int32_t __attribute__((vector_size(4 * kLanes)));
using UnsignedVec = std::uint32_t __attribute__((vector_size(4 * kLanes)));
using ShortVec = std::uint16_t __attribute__((vector_size(2 * kLanes)));
using LooseVec = float __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
using LooseIntVec = std::int32_t __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
using LooseShortVec = std::uint16_t __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));
// Half as many doubles, and the floats they come from.
using DoubleVec = double __attribute__((vector_size(4 * kLanes)));
using HalfVec = float __attribute__((vector_size(2 * kLanes)));
using LooseHalfVec = float __attribute__((vector_size(2 * kLanes), aligned(4), may_alias));

// The integers that a comparison of V gives.
template <class V>
struct IntegerOf {
  using Type = std::int32_t;
};
template <>
struct IntegerOf<Vec> {
  using Type = IntVec;
};

// Bits of F and I: float and int32, or their vectors. The rules of the conversions are core/base/half.h's;
// right shifts of the 16-bit formats' own bits meet no sign.
inline UnsignedVec bits_of(Vec x) { return __builtin_bit_cast(UnsignedVec, x); }
inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
inline Vec float_of(UnsignedVec bits) { return __builtin_bit_cast(Vec, bits); }
inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline IntVec as_signed(UnsignedVec bits) { return __builtin_bit_cast(IntVec, bits); }
inline std::int32_t as_signed(std::uint32_t bits) { return static_cast<std::int32_t>(bits); }

// Branch-free, for levels without F16C and for the rest of a row. V: float or Vec; the result in the low 16
// bits.
template <class V>
inline auto half_bits(V x) {
  const auto f = bits_of(x);
  const auto a = f & 0x7fffffffu;
  const auto r = a - 0x38000000u;
  const auto normal = (r + 0x0fffu + ((r >> 13) & 1u)) >> 13;
  // Adding 0.5 leaves the subnormal's units at the float's last bit, rounded to nearest even by the addition.
  const auto small = bits_of(float_of(a) + 0.5f) - 0x3f000000u;
  const auto nan = ((a >> 13) & 0x3ffu) | 0x7e00u;
  auto h = as_signed(a) < 0x38800000 ? small : normal;
  h = as_signed(a) >= 0x477ff000 ? (a & 0u) + 0x7c00u : h;
  h = as_signed(a) > 0x7f800000 ? nan : h;
  return h | ((f >> 16) & 0x8000u);
}
template <class U>
inline auto half_value(U h) {
  const U a = (h & 0x7fffu) << 13;
  const U finite = bits_of(float_of(a) * 0x1p112f);
  return float_of(((h & 0x8000u) << 16) | (as_signed(a) >= 0x0f800000 ? a | 0x7f800000u : finite));
}
template <class V>
inline auto bfloat16_bits(V x) {
  const auto f = bits_of(x);
  const auto rounded = (f + 0x7fffu + ((f >> 16) & 1u)) >> 16;
  const auto nan = (f >> 16) | 0x40u;
  return as_signed(f & 0x7fffffffu) > 0x7f800000 ? nan : rounded;
}

// kLanes 16-bit values to 32 bits and back. By intrinsics: g++ 12 splits the plain conversions in halves.
inline UnsignedVec widened_bits(const void* p) {
#if defined(__AVX512F__)
  const __m256i bits = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  return __builtin_bit_cast(UnsignedVec, _mm512_maskz_cvtepu16_epi32(kAllLanes, bits));
#elif defined(__AVX2__)
  const __m128i bits = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return __builtin_bit_cast(UnsignedVec, _mm256_cvtepu16_epi32(bits));
#else
  return __builtin_convertvector(*static_cast<const LooseShortVec*>(p), UnsignedVec);
#endif
}
inline void store_low_bits(void* p, UnsignedVec v) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(static_cast<__m256i*>(p),
                      _mm512_maskz_cvtepi32_epi16(kAllLanes, __builtin_bit_cast(__m512i, v)));
#elif defined(__AVX2__)
  const __m256i wide = __builtin_bit_cast(__m256i, v);
  _mm_storeu_si128(static_cast<__m128i*>(p),
                   _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1)));
#else
  *static_cast<LooseShortVec*>(p) = __builtin_convertvector(v, ShortVec);
#endif
}

// V is Vec or float: one body serves the vectors and the rest of a row. Values are floats whatever the memory
// holds.
template <class V>
inline V load(const float* p) {
  if constexpr (sizeof(V) == sizeof(float))
    return *p;
  else
    return *reinterpret_cast<const LooseVec*>(p);
}
template <class V>
inline V load(const Half* p) {
  if constexpr (sizeof(V) == sizeof(float)) {
    return half_value(static_cast<std::uint32_t>(p->bits));
  } else {
#if defined(__AVX512F__)
    return _mm512_maskz_cvtph_ps(kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__F16C__)
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
    return half_value(widened_bits(p));
#endif
  }
}
template <class V>
inline V load(const BFloat16* p) {
  if constexpr (sizeof(V) == sizeof(float))
    return float_of(static_cast<std::uint32_t>(p->bits) << 16);
  else
    return float_of(widened_bits(p) << 16);
}

template <class V>
inline void store(float* p, V v) {
  if constexpr (sizeof(V) == sizeof(float))
    *p = v;
  else
    *reinterpret_cast<LooseVec*>(p) = v;
}
template <class V>
inline void store(Half* p, V v) {
  if constexpr (sizeof(V) == sizeof(float)) {
    p->bits = static_cast<std::uint16_t>(half_bits(v));
  } else {
#if defined(__AVX512F__)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_maskz_cvtps_ph(kAllLanes, v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
#else
    store_low_bits(p, half_bits(v));
#endif
  }
}
template <class V>
inline void store(BFloat16* p, V v) {
  if constexpr (sizeof(V) == sizeof(float))
    p->bits = static_cast<std::uint16_t>(bfloat16_bits(v));
  else
    store_low_bits(p, bfloat16_bits(v));
}

// to[i] = from[i] for n elements; nothing overlaps. Always inlined: g++ 12 warns of the copies that it makes
// for one n.
template <class From, class To>
__attribute__((always_inline)) inline void convert(const From* from, To* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store<Vec>(to + i, load<Vec>(from + i));
  for (; i < n; ++i) store<float>(to + i, load<float>(from + i));
}

// n elements of `dtype` (F32, F16, BF16) to floats and back; nothing overlaps.
inline void widen(const void* from, DType dtype, float* to, std::int64_t n) {
  if (dtype == DType::kF32)
    __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
  else if (dtype == DType::kF16)
    convert(static_cast<const Half*>(from), to, n);
  else
    convert(static_cast<const BFloat16*>(from), to, n);
}
inline void narrow(const float* from, void* to, DType dtype, std::int64_t n) {
  if (dtype == DType::kF32)
    __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
  else if (dtype == DType::kF16)
    convert(from, static_cast<Half*>(to), n);
  else
    convert(from, static_cast<BFloat16*>(to), n);
}

}  // namespace
}  // namespace tandem::TD_ISA_NAMESPACE

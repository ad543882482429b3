// Element types of a tensor and their sizes. Conversions between them are a backend's work
// (backends/backend.h, map).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/half.h"

namespace tandem {

enum class DType : std::uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kU8 };

std::size_t size_of(DType dtype);
std::string_view name(DType dtype);  // "F64", "F32", "F16", "BF16", "I64", "I32", "I16", "U8"
bool is_floating(DType dtype);
bool is_16_bit_float(DType dtype);
// The dtype of a parameter's gradient and of statistics: F64 for F64, else F32 (amp.md 3.2).
DType accumulation_dtype(DType dtype);

// dtype_of<float>() == DType::kF32, and so on.
template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<double>() {
  return DType::kF64;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::kF32;
}
template <>
constexpr DType dtype_of<Half>() {
  return DType::kF16;
}
template <>
constexpr DType dtype_of<BFloat16>() {
  return DType::kBF16;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::kI64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType dtype_of<std::int16_t>() {
  return DType::kI16;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::kU8;
}

}  // namespace tandem

// The number types of data files (NIfTI, HDF5): names, sizes and the map from C++ types. Types of computation
// are core/tensor's DType.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tandem {

enum class NumberType { kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF32, kF64 };

constexpr std::size_t number_size(NumberType type) {
  switch (type) {
    case NumberType::kU8:
    case NumberType::kI8:
      return 1;
    case NumberType::kU16:
    case NumberType::kI16:
      return 2;
    case NumberType::kU32:
    case NumberType::kI32:
    case NumberType::kF32:
      return 4;
    case NumberType::kU64:
    case NumberType::kI64:
    case NumberType::kF64:
      return 8;
  }
  return 0;
}

constexpr std::string_view number_name(NumberType type) {
  constexpr std::string_view kNames[] = {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64"};
  return kNames[static_cast<std::size_t>(type)];
}

constexpr bool is_integer(NumberType type) { return type < NumberType::kF32; }

template <class T>
constexpr NumberType number_type_of() {
  if constexpr (std::is_same_v<T, float>) return NumberType::kF32;
  if constexpr (std::is_same_v<T, double>) return NumberType::kF64;
  if constexpr (std::is_integral_v<T>) {
    constexpr NumberType kUnsigned[] = {NumberType::kU8, NumberType::kU16, NumberType::kU32,
                                        NumberType::kU64};
    constexpr NumberType kSigned[] = {NumberType::kI8, NumberType::kI16, NumberType::kI32, NumberType::kI64};
    constexpr std::size_t log2 = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return std::is_signed_v<T> ? kSigned[log2] : kUnsigned[log2];
  }
}

// Calls visit(T{}) with T the C++ type of `type`.
template <class Visit>
decltype(auto) visit_number_type(NumberType type, Visit&& visit) {
  switch (type) {
    case NumberType::kU8:
      return visit(std::uint8_t{});
    case NumberType::kI8:
      return visit(std::int8_t{});
    case NumberType::kU16:
      return visit(std::uint16_t{});
    case NumberType::kI16:
      return visit(std::int16_t{});
    case NumberType::kU32:
      return visit(std::uint32_t{});
    case NumberType::kI32:
      return visit(std::int32_t{});
    case NumberType::kU64:
      return visit(std::uint64_t{});
    case NumberType::kI64:
      return visit(std::int64_t{});
    case NumberType::kF32:
      return visit(float{});
    case NumberType::kF64:
      break;
  }
  return visit(double{});
}

}  // namespace tandem

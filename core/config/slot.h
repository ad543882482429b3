// A Slot is one way to reach an option's variable whatever its exact type: double or float, int or uint64_t,
// plain or std::optional, vector or array. fields.h makes them from references; nobody else needs to.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tandem {

// Wide enough for every int64_t and uint64_t.
__extension__ typedef __int128 WideInteger;

namespace slot_detail {

template <class T>
struct Unwrap {
  using type = T;
  static constexpr bool kOptional = false;
};
template <class T>
struct Unwrap<std::optional<T>> {
  using type = T;
  static constexpr bool kOptional = true;
};

template <class T>
struct ListOf {
  static constexpr std::size_t kFixedSize = 0;
  using Element = T;
};
template <class T>
struct ListOf<std::vector<T>> {
  static constexpr std::size_t kFixedSize = 0;
  using Element = T;
};
template <class T, std::size_t N>
struct ListOf<std::array<T, N>> {
  static constexpr std::size_t kFixedSize = N;
  using Element = T;
};

// Converts between the variable's type and the slot's; a list element by element.
template <class To, class From>
To convert(const From& from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (std::is_arithmetic_v<From> || std::is_same_v<From, WideInteger>) {
    return static_cast<To>(from);
  } else {
    To to{};
    if constexpr (requires { to.resize(from.size()); }) to.resize(from.size());
    for (std::size_t i = 0; i < from.size() && i < to.size(); ++i)
      to[i] = static_cast<typename ListOf<To>::Element>(from[i]);
    return to;
  }
}

// A variable of type T can hold values of V: both integers (not bool), both floating point, the same type, or
// lists of such.
template <class T, class V>
inline constexpr bool kFitsScalar = std::is_same_v<T, V> ||
                                    (std::is_floating_point_v<T> && std::is_same_v<V, double>) ||
                                    (std::is_integral_v<T> && !std::is_same_v<T, bool> &&
                                     std::is_same_v<V, WideInteger>);
template <class T, class V>
inline constexpr bool kFits = std::is_same_v<T, V> || kFitsScalar<T, V> ||
                              (!std::is_same_v<typename ListOf<T>::Element, T> &&
                               !std::is_same_v<typename ListOf<V>::Element, V> &&
                               kFitsScalar<typename ListOf<T>::Element, typename ListOf<V>::Element>);

}  // namespace slot_detail

template <class V>
struct Slot {
  bool nullable = false;
  std::size_t fixed_size = 0;  // of an array; 0: any
  // Limits of the variable's type (of its elements), as numbers; only meaningful for arithmetic types.
  WideInteger lowest_integer = 0, highest_integer = 0;
  double highest_number = std::numeric_limits<double>::max();
  bool single_precision = false;
  std::function<std::optional<V>()> get;
  std::function<void(std::optional<V>)> set;  // nullopt only if nullable

  Slot() = default;  // get and set are the caller's
  template <class T>
  requires slot_detail::kFits<typename slot_detail::Unwrap<T>::type, V> Slot(
      T& variable) {  // NOLINT: implicit on purpose, so that fields are declared with the plain variable
    using Plain = typename slot_detail::Unwrap<T>::type;
    using Element = typename slot_detail::ListOf<Plain>::Element;
    nullable = slot_detail::Unwrap<T>::kOptional;
    fixed_size = slot_detail::ListOf<Plain>::kFixedSize;
    if constexpr (std::is_integral_v<Element>) {
      lowest_integer = std::numeric_limits<Element>::lowest();
      highest_integer = std::numeric_limits<Element>::max();
    } else if constexpr (std::is_floating_point_v<Element>) {
      highest_number = std::numeric_limits<Element>::max();
      single_precision = std::is_same_v<Element, float>;
    }
    T* target = &variable;
    get = [target]() -> std::optional<V> {
      if constexpr (slot_detail::Unwrap<T>::kOptional) {
        if (!*target) return std::nullopt;
        return slot_detail::convert<V>(**target);
      } else {
        return slot_detail::convert<V>(*target);
      }
    };
    set = [target](std::optional<V> value) {
      if (value)
        *target = slot_detail::convert<Plain>(*value);
      else if constexpr (slot_detail::Unwrap<T>::kOptional)
        target->reset();
    };
  }
};

}  // namespace tandem

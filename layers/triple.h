// Triple: a size per spatial axis (depth, height, width), written as one number for all axes or as three.
// Nothing else lives here.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>

namespace tandem {

// Implicit on purpose: {.kernel = 3} and {.kernel = {1, 3, 3}} both read well. For fewer dimensions the
// leading sizes are not read: {0, height, width}.
struct Triple : std::array<std::int64_t, 3> {
  template <std::integral Integer>
  constexpr Triple(Integer all)  // NOLINT
      : std::array<std::int64_t, 3>{static_cast<std::int64_t>(all), static_cast<std::int64_t>(all),
                                    static_cast<std::int64_t>(all)} {}
  constexpr Triple(std::int64_t depth, std::int64_t height, std::int64_t width)
      : std::array<std::int64_t, 3>{depth, height, width} {}
  constexpr Triple(const std::array<std::int64_t, 3>& sizes)  // NOLINT
      : std::array<std::int64_t, 3>(sizes) {}
};

}  // namespace tandem

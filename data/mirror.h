// Reversal of an axis of values [D, H, W, depth]; depth is the number of channels, or 1.
#pragma once

#include <algorithm>
#include <span>

#include "data/volume.h"

namespace tandem {

// In place; axis 0 (z), 1 (y) or 2 (x).
template <class T>
void mirror_values(std::span<T> values, const Index3& size, std::int64_t depth, int axis) {
  std::int64_t outer = 1, inner = depth;
  for (int a = 0; a < 3; ++a) {
    if (a < axis) outer *= size[static_cast<std::size_t>(a)];
    if (a > axis) inner *= size[static_cast<std::size_t>(a)];
  }
  const std::int64_t n = size[static_cast<std::size_t>(axis)];
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < n / 2; ++i) {
      const auto low = values.begin() + (o * n + i) * inner;
      const auto high = values.begin() + (o * n + n - 1 - i) * inner;
      std::swap_ranges(low, low + inner, high);
    }
}

}  // namespace tandem

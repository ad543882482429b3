// Pictures of a report: RGB pixels and their PNG bytes. Reading images is elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

using Rgb = std::array<std::uint8_t, 3>;

struct Picture {
  std::int64_t width = 0, height = 0;
  std::vector<Rgb> pixels;  // row by row from the top left

  Picture(std::int64_t w, std::int64_t h) : width(w), height(h), pixels(static_cast<std::size_t>(w * h)) {}
  Rgb& at(std::int64_t row, std::int64_t column) {
    return pixels[static_cast<std::size_t>(row * width + column)];
  }
};

// The picture as a PNG file (8-bit RGB, no interlace). At least one pixel and less than 2^31 along each side.
std::string encode_png(const Picture& picture);

// Colour of class 1, 2, ... (0: background, black): eight that are told apart on black, white and grey and by
// most colour-blind readers, then more by the golden angle.
Rgb class_color(std::int64_t cls);
// "#2f74d0"
std::string css_color(const Rgb& color);

}  // namespace tandem

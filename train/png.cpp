// PNG: signature, IHDR, IDAT (zlib), IEND (W3C PNG specification, second edition); filter 1 (left neighbour).
#include "train/png.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cmath>
#include <string_view>

#include "core/base/error.h"

namespace tandem {
namespace {

void put_big(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

void put_chunk(std::string& out, std::string_view type, std::string_view data) {
  put_big(out, static_cast<std::uint32_t>(data.size()));
  std::string body(type);
  body += data;
  out += body;
  put_big(out, static_cast<std::uint32_t>(
                   crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int status =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), Z_DEFAULT_COMPRESSION);
  if (status != Z_OK) fail(ErrorKind::kResource, "[png] compression failed: zlib status {}", status);
  out.resize(size);
  return out;
}

constexpr std::array<Rgb, 8> kColors{{{47, 116, 208},
                                      {217, 98, 15},
                                      {18, 147, 107},
                                      {180, 74, 192},
                                      {168, 130, 15},
                                      {21, 144, 168},
                                      {210, 60, 60},
                                      {122, 95, 208}}};

}  // namespace

std::string encode_png(const Picture& picture) {
  std::string rows;
  rows.reserve(static_cast<std::size_t>(picture.height * (1 + 3 * picture.width)));
  for (std::int64_t row = 0; row < picture.height; ++row) {
    rows += '\1';
    Rgb left{};
    for (std::int64_t column = 0; column < picture.width; ++column) {
      const Rgb& here = picture.pixels[static_cast<std::size_t>(row * picture.width + column)];
      for (std::size_t i = 0; i < 3; ++i) rows += static_cast<char>(here[i] - left[i]);
      left = here;
    }
  }
  std::string header;
  put_big(header, static_cast<std::uint32_t>(picture.width));
  put_big(header, static_cast<std::uint32_t>(picture.height));
  header += std::string("\x08\x02\x00\x00\x00", 5);  // 8 bits, RGB, deflate, adaptive filters, no interlace
  std::string out = "\x89PNG\r\n\x1a\n";
  put_chunk(out, "IHDR", header);
  put_chunk(out, "IDAT", deflated(rows));
  put_chunk(out, "IEND", "");
  return out;
}

Rgb class_color(std::int64_t cls) {
  if (cls <= 0) return {0, 0, 0};
  if (cls <= static_cast<std::int64_t>(kColors.size())) return kColors[static_cast<std::size_t>(cls - 1)];
  // Hue by the golden angle, saturation 0.6, value 0.8: h(n) = 137.508 n degrees.
  const double hue = std::fmod(137.508 * static_cast<double>(cls), 360.0) / 60;
  Rgb color;
  for (std::size_t i = 0; i < 3; ++i) {
    const double k = std::fmod((i == 0 ? 5.0 : i == 1 ? 3.0 : 1.0) + hue, 6.0);
    const double share = std::fmax(0, std::fmin(std::fmin(k, 4 - k), 1));
    color[i] = static_cast<std::uint8_t>(std::lround(255 * 0.8 * (1 - 0.6 * share)));
  }
  return color;
}

std::string css_color(const Rgb& color) {
  return fmt::format("#{:02x}{:02x}{:02x}", color[0], color[1], color[2]);
}

}  // namespace tandem

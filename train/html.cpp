// Texts and tables for a page.
#include "train/html.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace tandem {

std::string html_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t')
          out += "\xef\xbf\xbd";
        else
          out += c;
    }
  }
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

std::string png_data_uri(std::string_view png) { return "data:image/png;base64," + base64(png); }

std::string bytes_text(double bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 100 ? 0 : 1, kUnits[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 1);
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  if (total < 3600) return fmt::format("{}:{:02} min", total / 60, total % 60);
  return fmt::format("{}:{:02}:{:02} h", total / 3600, total / 60 % 60, total % 60);
}

std::string number_text(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  return fmt::format("{:.{}g}", value, digits);
}

std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

void HtmlTable::add(std::string_view tag, const std::vector<std::string>& cells) {
  std::string line = "<tr>";
  for (std::size_t i = 0; i < columns_; ++i)
    line += fmt::format("<{0}>{1}</{0}>", tag, i < cells.size() ? cells[i] : "");
  (tag == "th" ? head_ : body_) += line + "</tr>\n";
}

std::string HtmlTable::html() const {
  return "<div class=\"scroll\"><table>\n<thead>" + head_ + "</thead>\n<tbody>\n" + body_ +
         "</tbody></table></div>\n";
}

}  // namespace tandem

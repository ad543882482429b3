// Small pieces of HTML: escaping, data URIs, numbers for people, tables. What a report says is train/report*.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// & < > " ' as entities; control characters but newline and tab become U+FFFD.
std::string html_escaped(std::string_view text);
// data:image/png;base64,...
std::string png_data_uri(std::string_view png);
std::string base64(std::string_view bytes);

// "1.4 GiB", "312 MiB", "0 B"
std::string bytes_text(double bytes);
// "0.42 s", "3:05 min", "2:10:00 h"
std::string seconds_text(double seconds);
// "0.8312", "1.2e-05"; "–" for what is not finite.
std::string number_text(double value, int digits = 4);
// "24 of 60" style shares: "12.3 %"
std::string percent_text(double share);

// A table in a box that scrolls sideways by itself, so that the page never does. Cells are HTML.
class HtmlTable {
 public:
  explicit HtmlTable(std::vector<std::string> header) : columns_(header.size()) { add("th", header); }
  void row(const std::vector<std::string>& cells) { add("td", cells); }
  std::string html() const;

 private:
  void add(std::string_view tag, const std::vector<std::string>& cells);

  std::size_t columns_;
  std::string head_, body_;
};

}  // namespace tandem

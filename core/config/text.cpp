// Lines, columns and forbidden bytes of a text.
#include "core/config/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace tandem {
namespace {

constexpr const char* kSaveAsUtf8 = "save the file as UTF-8 without a mark";

}  // namespace

int utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (text.empty()) return 0;
  if (first < 0x80) return 1;
  const int length = first >= 0xf5 ? 0 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  for (int i = 1; i < length; ++i)
    if ((byte(static_cast<std::size_t>(i)) & 0xc0u) != 0x80u) return 0;
  const unsigned second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool too_large = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

TextLines::TextLines(std::string_view text) : text_(text) {
  starts_.push_back(0);
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') starts_.push_back(i + 1);
}

std::size_t TextLines::offset(int line, int byte_column) const {
  if (line < 0 || byte_column < 0 || static_cast<std::size_t>(line) >= starts_.size()) return text_.size();
  return std::min(starts_[static_cast<std::size_t>(line)] + static_cast<std::size_t>(byte_column),
                  text_.size());
}

char TextLines::at(int line, int byte_column) const {
  const std::size_t i = offset(line, byte_column);
  return i < text_.size() ? text_[i] : '\0';
}

bool TextLines::has(int line, int byte_column, std::string_view part) const {
  return text_.substr(offset(line, byte_column)).starts_with(part);
}

bool TextLines::has_tab_indentation(int line) const {
  const std::string_view rest = text_.substr(offset(line, 0));
  return rest.substr(0, rest.find_first_not_of(" \t")).find('\t') != std::string_view::npos;
}

int TextLines::column(int line, int byte_column) const {
  const std::size_t first = offset(line, 0);
  const std::size_t last = offset(line, byte_column);
  int characters = 0;
  for (std::size_t i = first; i < last; ++i)
    if ((static_cast<unsigned char>(text_[i]) & 0xc0u) != 0x80u) ++characters;
  return characters + 1;
}

std::size_t TextLines::closing_quote(std::size_t opening) const {
  const char quote = text_[opening];
  for (std::size_t i = opening + 1; i < text_.size(); ++i) {
    if (quote == '"' && text_[i] == '\\') {
      ++i;
    } else if (text_[i] == quote) {
      if (quote != '\'' || i + 1 >= text_.size() || text_[i + 1] != '\'') return i;
      ++i;
    }
  }
  return std::string_view::npos;
}

bool TextLines::quote_ends(int line, int byte_column) const {
  return closing_quote(offset(line, byte_column)) != std::string_view::npos;
}

bool TextLines::quote_starts_text(std::size_t i) const {
  if (text_[i] != '"' && text_[i] != '\'') return false;
  return i == 0 || std::string_view(" \t\n,[{:").find(text_[i - 1]) != std::string_view::npos;
}

bool TextLines::bracket_ends(int line, int byte_column) const {
  std::int64_t depth = 0;
  for (std::size_t i = offset(line, byte_column); i < text_.size(); ++i) {
    if (quote_starts_text(i)) i = std::min(closing_quote(i), text_.size());
    if (i >= text_.size()) return false;
    if (text_[i] == '[' || text_[i] == '{') ++depth;
    if ((text_[i] == ']' || text_[i] == '}') && --depth == 0) return true;
  }
  return false;
}

std::optional<std::pair<int, int>> TextLines::open_quote(int line, int byte_column) const {
  for (std::size_t i = offset(line, byte_column); i < text_.size(); ++i) {
    if (!quote_starts_text(i)) continue;
    const std::size_t closing = closing_quote(i);
    if (closing == std::string_view::npos) {
      const auto next_line = std::upper_bound(starts_.begin(), starts_.end(), i);
      return std::pair(static_cast<int>(next_line - starts_.begin()) - 1,
                       static_cast<int>(i - *(next_line - 1)));
    }
    i = closing;
  }
  return std::nullopt;
}

std::optional<int> TextLines::key_without_blank(int line) const {
  const auto is_key_character = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::size_t i = text_.find_first_not_of(" -", offset(line, 0));
  const std::size_t key = i;
  while (i < text_.size() && is_key_character(text_[i])) ++i;
  const bool is_key = i > key && i + 1 < text_.size() && text_[i] == ':';
  if (!is_key || std::string_view(" \t\r\n/\\").find(text_[i + 1]) != std::string_view::npos)
    return std::nullopt;
  return static_cast<int>(key - offset(line, 0));
}

std::optional<int> TextLines::directive() const {
  for (std::size_t line = 0; line < starts_.size(); ++line) {
    const char first = at(static_cast<int>(line), 0);
    if (first == '%') return static_cast<int>(line) + 1;
    if (first != '#' && first != '\n' && first != '\r') return std::nullopt;
  }
  return std::nullopt;
}

std::optional<TextLines::BadCharacter> TextLines::first_bad_character() const {
  if (text_.starts_with("\xef\xbb\xbf") || text_.starts_with("\xff\xfe") || text_.starts_with("\xfe\xff"))
    return BadCharacter{"starts with a byte order mark, expected plain UTF-8", 1, 1, kSaveAsUtf8};
  if (text_.size() > 1 && (text_[0] == '\0') != (text_[1] == '\0'))
    return BadCharacter{"looks like UTF-16, expected UTF-8", 1, 1, kSaveAsUtf8};
  int line = 1, column = 1;
  for (std::size_t i = 0; i < text_.size(); ++column) {
    const auto byte = static_cast<unsigned char>(text_[i]);
    const int length = utf8_length(text_.substr(i));
    if (length == 0)
      return BadCharacter{fmt::format("the byte 0x{:02x} is not UTF-8", byte), line, column, kSaveAsUtf8};
    if (byte == '\r' && (i + 1 >= text_.size() || text_[i + 1] != '\n'))
      return BadCharacter{"a carriage return without a line feed", line, column,
                          "save the file with line feeds at the ends of lines"};
    const bool allowed = byte >= 0x20 || byte == '\n' || byte == '\r' || byte == '\t';
    if (!allowed || byte == 0x7f)
      return BadCharacter{
          byte == 0 ? "the character NUL" : fmt::format("the control character 0x{:02x}", byte), line, column,
          "a job is a text file"};
    if (byte == '\n') {
      ++line;
      column = 0;
    }
    i += static_cast<std::size_t>(length);
  }
  return std::nullopt;
}

}  // namespace tandem

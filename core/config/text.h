// The raw text of a YAML file by line and column, and the checks that need no YAML: encoding, control
// characters, closing quotes. Used by yaml.cpp only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

class TextLines {
 public:
  // Keeps a view: `text` must outlive it.
  explicit TextLines(std::string_view text);

  // Lines and byte columns count from 0, as yaml-cpp does; beyond the end: '\0'.
  char at(int line, int byte_column) const;
  // Whether `part` stands at this place.
  bool has(int line, int byte_column, std::string_view part) const;
  bool has_tab_indentation(int line) const;
  // Column in characters, counted from 1, of a byte column.
  int column(int line, int byte_column) const;
  // Whether the quote character at this place is closed later (single: '' is an escape; double: \ is).
  bool quote_ends(int line, int byte_column) const;

  // Whether the bracket at this place is closed later; texts in quotes are passed over.
  bool bracket_ends(int line, int byte_column) const;
  // Line and byte column of the first quote at or after this place that starts a text and is never closed.
  std::optional<std::pair<int, int>> open_quote(int line, int byte_column) const;

  struct BadCharacter {
    std::string what;
    int line, column;  // from 1
    std::string note;
  };
  // Byte column of a key of this line whose ':' has no blank behind it ("lr:0.1"), so that YAML sees a text.
  std::optional<int> key_without_blank(int line) const;

  // Line (from 1) of a directive such as "%YAML 1.1" in front of the document.
  std::optional<int> directive() const;

  // The first byte order mark, NUL, other control character, lone carriage return or byte that is not UTF-8.
  std::optional<BadCharacter> first_bad_character() const;

 private:
  // Where the quote at `opening` is closed; npos: nowhere.
  std::size_t closing_quote(std::size_t opening) const;
  bool quote_starts_text(std::size_t i) const;
  std::size_t offset(int line, int byte_column) const;
  std::string_view text_;
  std::vector<std::size_t> starts_;
};

// Length in bytes of the UTF-8 character at the start of `text` (1 to 4); 0 if it is not valid UTF-8
// (overlong, surrogate, above U+10FFFF, cut).
int utf8_length(std::string_view text);

}  // namespace tandem

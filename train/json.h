// JSON as a run writes it: one object built key by key with the shortest numbers that read back exactly, and
// a strict reader of one object. In train/, only json.cpp includes nlohmann-json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

// {"key": value, ...} in the order of the calls, on one line. A number that is not finite is written as null,
// followed by "KEY_nonfinite": "nan", "inf" or "-inf". Text that is not UTF-8 has its wrong bytes replaced by
// U+FFFD.
class JsonObject {
 public:
  JsonObject& add(std::string_view key, std::string_view text);
  JsonObject& add(std::string_view key, const char* text) { return add(key, std::string_view(text)); }
  JsonObject& add(std::string_view key, bool value);
  JsonObject& add(std::string_view key, std::int64_t value);
  JsonObject& add(std::string_view key, int value) { return add(key, std::int64_t{value}); }
  JsonObject& add(std::string_view key, double value);
  JsonObject& add(std::string_view key, float value);
  JsonObject& add(std::string_view key, const std::vector<std::int64_t>& values);
  // An object of numbers; what is not finite is named in "KEY_nonfinite": {...}.
  JsonObject& add(std::string_view key, const std::vector<std::pair<std::string, double>>& values);
  JsonObject& add(std::string_view key, const std::vector<std::string>& texts);
  JsonObject& add(std::string_view key, const JsonObject& object);
  JsonObject& add(std::string_view key, const std::vector<JsonObject>& objects);

  std::string text() const { return "{" + body_ + "}"; }

 private:
  JsonObject& raw(std::string_view key, std::string_view json);
  template <class Number>
  JsonObject& number(std::string_view key, Number value);

  std::string body_;
};

std::string json_quoted(std::string_view text);

// The members of one JSON object: texts as they are, everything else as JSON. Nothing unless `text` is
// exactly one object, of at most 1 MiB and 64 levels.
std::optional<std::map<std::string, std::string>> parse_json_object(std::string_view text);
// The same in the order of the text, for members that are an object again.
using JsonMembers = std::vector<std::pair<std::string, std::string>>;
std::optional<JsonMembers> json_members(std::string_view text);
// A number as JsonObject writes it: `text` is that of the member, `nonfinite` what KEY_nonfinite says (or
// ""). 0 for a text that is no number, NaN for a null that nothing explains.
double json_number(const std::string& text, std::string_view nonfinite);

}  // namespace tandem

// Writing is ours (exact shortest numbers through fmt); reading is nlohmann-json's.
#include "train/json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

namespace tandem {
namespace {

constexpr std::size_t kMaxJsonBytes = 1 << 20;
constexpr int kMaxJsonDepth = 64;

const char* nonfinite_name(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

// Json: nlohmann::json sorts the members, ordered_json keeps their order (and is slow with very many).
template <class Json>
std::optional<JsonMembers> members_of(std::string_view text) {
  if (text.size() > kMaxJsonBytes) return std::nullopt;
  bool too_deep = false;
  const auto watch = [&too_deep](int depth, typename Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxJsonDepth;
    return !too_deep;
  };
  const Json json = Json::parse(text.begin(), text.end(), watch, false);
  if (too_deep || !json.is_object()) return std::nullopt;
  JsonMembers members;
  for (const auto& [key, value] : json.items())
    members.emplace_back(key, value.is_string() ? value.template get<std::string>() : value.dump());
  return members;
}

}  // namespace

std::string json_quoted(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

JsonObject& JsonObject::raw(std::string_view key, std::string_view json) {
  if (!body_.empty()) body_ += ", ";
  body_ += json_quoted(key);
  body_ += ": ";
  body_ += json;
  return *this;
}

template <class Number>
JsonObject& JsonObject::number(std::string_view key, Number value) {
  if (std::isfinite(value)) return raw(key, fmt::format("{}", value));
  return raw(key, "null").add(std::string(key) + "_nonfinite", nonfinite_name(value));
}

JsonObject& JsonObject::add(std::string_view key, std::string_view text) {
  return raw(key, json_quoted(text));
}
JsonObject& JsonObject::add(std::string_view key, bool value) { return raw(key, value ? "true" : "false"); }
JsonObject& JsonObject::add(std::string_view key, std::int64_t value) {
  return raw(key, fmt::format("{}", value));
}
JsonObject& JsonObject::add(std::string_view key, double value) { return number(key, value); }
JsonObject& JsonObject::add(std::string_view key, float value) { return number(key, value); }

JsonObject& JsonObject::add(std::string_view key, const std::vector<std::int64_t>& values) {
  return raw(key, fmt::format("[{}]", fmt::join(values, ", ")));
}

JsonObject& JsonObject::add(std::string_view key, const std::vector<std::pair<std::string, double>>& values) {
  JsonObject numbers, nonfinite;
  for (const auto& [name, value] : values) {
    if (std::isfinite(value)) {
      numbers.add(name, value);
    } else {
      numbers.raw(name, "null");
      nonfinite.add(name, nonfinite_name(value));
    }
  }
  raw(key, numbers.text());
  return nonfinite.body_.empty() ? *this : raw(std::string(key) + "_nonfinite", nonfinite.text());
}

JsonObject& JsonObject::add(std::string_view key, const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + json_quoted(text);
  return raw(key, "[" + list + "]");
}

JsonObject& JsonObject::add(std::string_view key, const JsonObject& object) {
  return raw(key, object.text());
}

JsonObject& JsonObject::add(std::string_view key, const std::vector<JsonObject>& objects) {
  std::string list;
  for (const JsonObject& object : objects) list += (list.empty() ? "" : ", ") + object.text();
  return raw(key, "[" + list + "]");
}

std::optional<JsonMembers> json_members(std::string_view text) {
  return members_of<nlohmann::ordered_json>(text);
}

std::optional<std::map<std::string, std::string>> parse_json_object(std::string_view text) {
  const auto members = members_of<nlohmann::json>(text);
  if (!members) return std::nullopt;
  return std::map<std::string, std::string>(members->begin(), members->end());
}

double json_number(const std::string& text, std::string_view nonfinite) {
  if (text != "null") return std::strtod(text.c_str(), nullptr);
  const double infinity = std::numeric_limits<double>::infinity();
  if (nonfinite == "inf") return infinity;
  return nonfinite == "-inf" ? -infinity : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace tandem

// Scalars: grammar, type and range, with the note that helps most.
#include "core/config/field_values.h"

#include <fmt/core.h>

#include <cmath>
#include <filesystem>

#include "core/config/numbers.h"

namespace tandem {
namespace {

// Bounds as text; an absent bound is empty.
std::string bounds_text(const std::string& low, bool exclusive_low, const std::string& high,
                        bool exclusive_high) {
  std::string text;
  if (!low.empty()) text = fmt::format("{} {}", exclusive_low ? ">" : ">=", low);
  if (!high.empty())
    text += fmt::format("{}{} {}", text.empty() ? "" : " and ", exclusive_high ? "<" : "<=", high);
  return text;
}

const char* const kQuotedNote = "remove the quotes";

}  // namespace

std::string range_text(const NumberRange& range) {
  return bounds_text(std::isfinite(range.min) ? format_number(range.min) : "", range.exclusive_min,
                     std::isfinite(range.max) ? format_number(range.max) : "", range.exclusive_max);
}

std::string range_text(const IntegerRange& range) {
  return bounds_text(range.min != IntegerRange{}.min ? format_integer(range.min) : "", false,
                     range.max != IntegerRange{}.max ? format_integer(range.max) : "", false);
}

std::optional<double> read_number_value(const ConfigNode& node, ErrorList& errors, const NumberRule& rule) {
  const NumberReading<double> reading = node.is_scalar() ? read_number(node.text()) : NumberReading<double>{};
  if (!reading.value || node.quoted()) {
    errors.wrong(node, rule.expected, reading.value ? kQuotedNote : reading.note);
    return std::nullopt;
  }
  const double value = *reading.value;
  const NumberRange& r = rule.range;
  const bool low = r.exclusive_min ? !(value > r.min) : !(value >= r.min);
  const bool high = r.exclusive_max ? !(value < r.max) : !(value <= r.max);
  if (low || high) {
    errors.wrong(node, rule.expected);
    return std::nullopt;
  }
  if (std::fabs(value) > rule.highest) {
    errors.wrong(node, rule.expected, fmt::format("at most {} fits", format_number(rule.highest, true)));
    return std::nullopt;
  }
  return value;
}

std::optional<WideInteger> read_integer_value(const ConfigNode& node, ErrorList& errors,
                                              const IntegerRule& rule) {
  NumberReading<WideInteger> reading;
  if (node.is_scalar()) reading = rule.bytes ? read_bytes(node.text()) : read_integer(node.text());
  if (!reading.value || (node.quoted() && !rule.bytes)) {
    errors.wrong(node, rule.expected, reading.value ? kQuotedNote : reading.note);
    return std::nullopt;
  }
  if (*reading.value >= rule.min && *reading.value <= rule.max) return reading.value;
  const bool range_says_it =
      rule.expected.find(format_integer(rule.max)) != std::string::npos || *reading.value < rule.min;
  errors.wrong(node, rule.expected,
               range_says_it ? "" : fmt::format("at most {} fits", format_integer(rule.max)));
  return std::nullopt;
}

std::optional<std::string> read_text_value(const ConfigNode& node, ErrorList& errors,
                                           std::string_view expected) {
  if (node.is_scalar()) return node.text();
  errors.wrong(node, expected);
  return std::nullopt;
}

std::optional<std::string> read_path_value(const ConfigNode& node, ErrorList& errors,
                                           std::string_view expected) {
  if (!node.is_scalar() || node.text().empty()) {
    errors.wrong(node, expected);
    return std::nullopt;
  }
  namespace fs = std::filesystem;
  const auto& source = node.position().source;
  const fs::path base = source ? source->folder : fs::path();
  return fs::absolute(base / node.text()).lexically_normal().string();
}

}  // namespace tandem

// Reading one scalar under a rule, shared by the single fields (fields.cpp) and the lists (field_lists.cpp).
#pragma once

#include <optional>
#include <string>

#include "core/config/fields.h"
#include "core/config/slot.h"

namespace tandem {

struct NumberRule {
  NumberRange range;
  double highest;        // of the variable's type
  std::string expected;  // "a number > 0 and <= 10"
};
struct IntegerRule {
  WideInteger min, max;
  bool bytes = false;  // 8GiB allowed
  std::string expected;
};

// "> 0 and <= 10", ">= 1", "" for no bounds.
std::string range_text(const NumberRange& range);
std::string range_text(const IntegerRange& range);

template <class V>
NumberRule number_rule(const NumberRange& range, const Slot<V>& slot) {
  const std::string bounds = range_text(range);
  return {range, slot.highest_number,
          "a number" + (bounds.empty() ? "" : " " + bounds) + (slot.nullable ? " or null" : "")};
}
template <class V>
IntegerRule integer_rule(const IntegerRange& range, const Slot<V>& slot) {
  std::string bounds = range_text(range);
  const bool has_max = range.max != IntegerRange{}.max;
  if (bounds.empty() && slot.lowest_integer == 0) bounds = ">= 0";
  return {std::max<WideInteger>(range.min, slot.lowest_integer),
          has_max ? std::min<WideInteger>(range.max, slot.highest_integer) : slot.highest_integer, false,
          "an integer" + (bounds.empty() ? "" : " " + bounds) + (slot.nullable ? " or null" : "")};
}

// The value, or nullopt after reporting what is wrong with `node`.
std::optional<double> read_number_value(const ConfigNode& node, ErrorList& errors, const NumberRule& rule);
std::optional<WideInteger> read_integer_value(const ConfigNode& node, ErrorList& errors,
                                              const IntegerRule& rule);
std::optional<std::string> read_text_value(const ConfigNode& node, ErrorList& errors,
                                           std::string_view expected);
// An absolute, normalised path; relative ones are taken from the folder of the node's source.
std::optional<std::string> read_path_value(const ConfigNode& node, ErrorList& errors,
                                           std::string_view expected);

}  // namespace tandem

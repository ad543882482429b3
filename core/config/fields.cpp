// The kinds of single values: how each is read, written and described. Lists are in field_lists.cpp, whole
// structs in options.cpp.
#include "core/config/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/config/field_values.h"
#include "core/config/nearest.h"
#include "core/config/numbers.h"

namespace tandem {
namespace {

std::string or_null(std::string expected, bool nullable) {
  return nullable ? expected + " or null" : expected;
}

// A field of one scalar: `read_value` gives the value or reports why not; `write_value` the node of a value.
template <class V>
Field scalar_field(std::string name, std::string type, Slot<V> slot, std::string doc,
                   std::function<std::optional<V>(const ConfigNode&, ErrorList&)> read_value,
                   std::function<ConfigNode(const V&)> write_value) {
  Field field;
  field.name = std::move(name);
  field.type = or_null(std::move(type), slot.nullable);
  field.doc = std::move(doc);
  field.nullable = slot.nullable;
  field.read = [slot, read_value](const ConfigNode& node, ErrorList& errors) {
    if (slot.nullable && node.is_null()) {
      slot.set(std::nullopt);
      return;
    }
    if (std::optional<V> value = read_value(node, errors)) slot.set(std::move(value));
  };
  field.write = [get = slot.get, write_value] {
    const std::optional<V> value = get();
    return value ? write_value(*value) : ConfigNode();
  };
  return field;
}

std::optional<bool> read_flag(const ConfigNode& node, ErrorList& errors, bool nullable) {
  if (node.is_scalar() && !node.quoted()) {
    const std::string& text = node.text();
    if (text == "true" || text == "True" || text == "TRUE") return true;
    if (text == "false" || text == "False" || text == "FALSE") return false;
  }
  errors.wrong(node, or_null("true or false", nullable));
  return std::nullopt;
}

}  // namespace

Fields& Fields::number(std::string name, Slot<double> variable, NumberRange range, std::string doc,
                       std::string unit) {
  const NumberRule rule = number_rule(range, variable);
  Field field = scalar_field<double>(
      std::move(name), "number", variable, std::move(doc),
      [rule](const ConfigNode& node, ErrorList& errors) { return read_number_value(node, errors, rule); },
      [single = variable.single_precision](double v) {
        return ConfigNode::scalar(format_number(v, single));
      });
  field.range = range_text(range);
  field.unit = std::move(unit);
  return add(std::move(field));
}

Fields& Fields::integer(std::string name, Slot<WideInteger> variable, IntegerRange range, std::string doc,
                        std::string unit) {
  const IntegerRule rule = integer_rule(range, variable);
  Field field = scalar_field<WideInteger>(
      std::move(name), "integer", variable, std::move(doc),
      [rule](const ConfigNode& node, ErrorList& errors) { return read_integer_value(node, errors, rule); },
      [](WideInteger v) { return ConfigNode::scalar(format_integer(v)); });
  field.range = range_text(range);
  field.unit = std::move(unit);
  return add(std::move(field));
}

Fields& Fields::integer_or_auto(std::string name, std::optional<std::int64_t>& variable, IntegerRange range,
                                std::string doc, std::string unit) {
  Slot<WideInteger> slot(variable);
  slot.nullable = false;
  IntegerRule rule = integer_rule(range, slot);
  rule.expected += " or auto";
  Field field;
  field.name = std::move(name);
  field.type = "integer or auto";
  field.doc = std::move(doc);
  field.range = range_text(range);
  field.unit = std::move(unit);
  field.read = [slot, rule](const ConfigNode& node, ErrorList& errors) {
    if (node.is_scalar() && node.text() == "auto")
      slot.set(std::nullopt);
    else if (const auto value = read_integer_value(node, errors, rule))
      slot.set(value);
  };
  field.write = [get = slot.get] {
    const auto value = get();
    return ConfigNode::scalar(value ? format_integer(*value) : "auto");
  };
  return add(std::move(field));
}

Fields& Fields::bytes(std::string name, Slot<WideInteger> variable, IntegerRange range, std::string doc) {
  IntegerRule rule = integer_rule(range, variable);
  rule.bytes = true;
  const std::string bounds = range_text(range);
  rule.expected = or_null(bounds.empty() ? "a number of bytes such as 8GiB"
                                         : fmt::format("a number of bytes such as 8GiB, {}", bounds),
                          variable.nullable);
  Field field = scalar_field<WideInteger>(
      std::move(name), "bytes", variable, std::move(doc),
      [rule](const ConfigNode& node, ErrorList& errors) { return read_integer_value(node, errors, rule); },
      [](WideInteger v) { return ConfigNode::scalar(format_bytes(v)); });
  field.range = bounds;
  field.unit = "bytes";
  return add(std::move(field));
}

Fields& Fields::flag(std::string name, Slot<bool> variable, std::string doc) {
  return add(scalar_field<bool>(
      std::move(name), "flag", variable, std::move(doc),
      [nullable = variable.nullable](const ConfigNode& node, ErrorList& errors) {
        return read_flag(node, errors, nullable);
      },
      [](bool v) { return ConfigNode::scalar(v ? "true" : "false"); }));
}

Fields& Fields::text(std::string name, Slot<std::string> variable, std::string doc, std::string unit) {
  Field field = scalar_field<std::string>(
      std::move(name), "text", variable, std::move(doc),
      [nullable = variable.nullable](const ConfigNode& node, ErrorList& errors) {
        return read_text_value(node, errors, or_null("a text", nullable));
      },
      [](const std::string& v) { return ConfigNode::scalar(v, true); });
  field.unit = std::move(unit);
  return add(std::move(field));
}

Fields& Fields::path(std::string name, Slot<std::string> variable, std::string doc) {
  return add(scalar_field<std::string>(
      std::move(name), "path", variable, std::move(doc),
      [nullable = variable.nullable](const ConfigNode& node, ErrorList& errors) {
        return read_path_value(node, errors, or_null("a path", nullable));
      },
      [](const std::string& v) { return ConfigNode::scalar(v, true); }));
}

Fields& Fields::choice(std::string name, Slot<std::string> variable, std::vector<std::string> values,
                       std::string doc) {
  const std::string expected = or_null(fmt::format("one of {}", fmt::join(values, ", ")), variable.nullable);
  Field field = scalar_field<std::string>(
      std::move(name), "choice", variable, std::move(doc),
      [values, expected](const ConfigNode& node, ErrorList& errors) -> std::optional<std::string> {
        if (node.is_scalar() && std::find(values.begin(), values.end(), node.text()) != values.end())
          return node.text();
        const std::string nearest = node.is_scalar() ? nearest_name(node.text(), values) : "";
        errors.wrong(node, expected, nearest.empty() ? "" : fmt::format("did you mean '{}'?", nearest));
        return std::nullopt;
      },
      [](const std::string& v) { return ConfigNode::scalar(v, true); });
  field.range = fmt::format("{}", fmt::join(values, ", "));
  return add(std::move(field));
}

Fields& Fields::custom(std::string name, std::string type,
                       std::function<void(const ConfigNode&, ErrorList&)> read,
                       std::function<ConfigNode()> write, std::string doc, std::string unit) {
  Field field;
  field.name = std::move(name);
  field.type = std::move(type);
  field.read = std::move(read);
  field.write = std::move(write);
  field.doc = std::move(doc);
  field.unit = std::move(unit);
  return add(std::move(field));
}

Fields& Fields::check(std::function<void(ErrorList&)> rule, std::vector<std::string> keys) {
  rules_.push_back({std::move(rule), std::move(keys)});
  return *this;
}

Fields& Fields::only_for(std::vector<std::string> keys, std::string selector,
                         std::vector<std::string> values) {
  conditions_.push_back({std::move(keys), std::move(selector), std::move(values)});
  return *this;
}

Fields& Fields::required(std::string key) {
  required_.push_back(std::move(key));
  return *this;
}

const Field* Fields::find(std::string_view name) const {
  const auto found =
      std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) { return f.name == name; });
  return found == fields_.end() ? nullptr : &*found;
}

Fields& Fields::add(Field field) {
  fields_.push_back(std::move(field));
  return *this;
}

}  // namespace tandem

// Fields that are lists of scalars or of triples.
#include <fmt/core.h>

#include <utility>

#include "core/config/field_values.h"
#include "core/config/fields.h"
#include "core/config/numbers.h"

namespace tandem {
namespace {

// How long a list may be and what it is called in an error.
struct ListRule {
  std::int64_t min_size = 0;
  std::int64_t max_size = std::numeric_limits<std::int64_t>::max();
  bool single_allowed = false;  // a scalar is a list of one
  std::string expected;
};

std::string plural(std::string_view of, std::string_view bounds) {
  return bounds.empty() ? std::string(of) : fmt::format("{} {}", of, bounds);
}

// `of`: "numbers >= 0".
ListRule list_rule(std::int64_t min_size, std::int64_t max_size, std::size_t fixed_size, bool nullable,
                   const std::string& of) {
  ListRule rule;
  rule.min_size = fixed_size > 0 ? static_cast<std::int64_t>(fixed_size) : min_size;
  rule.max_size = fixed_size > 0 ? static_cast<std::int64_t>(fixed_size) : max_size;
  const bool bounded = rule.max_size != std::numeric_limits<std::int64_t>::max();
  std::string size;
  if (rule.min_size == rule.max_size)
    size = fmt::format("{} ", rule.min_size);
  else if (bounded)
    size = fmt::format("{} to {} ", rule.min_size, rule.max_size);
  else if (rule.min_size > 0)
    size = fmt::format("at least {} ", rule.min_size);
  rule.expected = fmt::format("a list of {}{}{}", size, of, nullable ? " or null" : "");
  return rule;
}

template <class V>
using ReadElement = std::function<std::optional<V>(const ConfigNode&, ErrorList&)>;

// All elements, or nullopt after reporting every wrong one.
template <class V>
std::optional<std::vector<V>> read_list(const ConfigNode& node, ErrorList& errors, const ListRule& rule,
                                        const ReadElement<V>& read_element) {
  if (rule.single_allowed && node.is_scalar()) {
    const std::optional<V> single = read_element(node, errors);
    if (!single) return std::nullopt;
    return std::vector<V>{*single};
  }
  const auto size = static_cast<std::int64_t>(node.items().size());
  if (!node.is_list() || size < rule.min_size || size > rule.max_size) {
    errors.wrong(node, rule.expected);
    return std::nullopt;
  }
  std::vector<V> values;
  for (const ConfigNode& item : node.items()) {
    const ErrorList::Scope scope(errors, fmt::format("[{}]", &item - node.items().data()));
    if (std::optional<V> value = read_element(item, errors)) values.push_back(std::move(*value));
  }
  if (values.size() != node.items().size()) return std::nullopt;
  return values;
}

template <class V>
Field list_field(std::string name, std::string type, Slot<std::vector<V>> slot, const ListRule& rule,
                 ReadElement<V> read_element, std::function<ConfigNode(const V&)> write_element) {
  Field field;
  field.name = std::move(name);
  field.type = std::move(type) + (slot.nullable ? " or null" : "");
  field.nullable = slot.nullable;
  field.read = [slot, rule, read_element](const ConfigNode& node, ErrorList& errors) {
    if (slot.nullable && node.is_null())
      slot.set(std::nullopt);
    else if (std::optional<std::vector<V>> values = read_list<V>(node, errors, rule, read_element))
      slot.set(std::move(values));
  };
  field.write = [get = slot.get, write_element] {
    const std::optional<std::vector<V>> values = get();
    if (!values) return ConfigNode();
    ConfigNode node = ConfigNode::list();
    for (const V& value : *values) node.append(write_element(value));
    return node;
  };
  return field;
}

ConfigNode write_text(const std::string& text) { return ConfigNode::scalar(text, true); }

}  // namespace

Fields& Fields::numbers(std::string name, Slot<std::vector<double>> variable, NumberRange range,
                        std::string doc, std::string unit) {
  NumberRule element = number_rule(range, variable);
  if (variable.nullable)
    element.expected.resize(element.expected.size() - std::string_view(" or null").size());
  const ListRule rule = list_rule(range.min_size, range.max_size, variable.fixed_size, variable.nullable,
                                  plural("numbers", range_text(range)));
  Field field = list_field<double>(
      std::move(name), "list of numbers", variable, rule,
      [element](const ConfigNode& node, ErrorList& errors) {
        return read_number_value(node, errors, element);
      },
      [single = variable.single_precision](double v) {
        return ConfigNode::scalar(format_number(v, single));
      });
  field.range = range_text(range);
  field.doc = std::move(doc);
  field.unit = std::move(unit);
  return add(std::move(field));
}

Fields& Fields::integers(std::string name, Slot<std::vector<WideInteger>> variable, IntegerRange range,
                         std::string doc, std::string unit) {
  IntegerRule element = integer_rule(range, variable);
  if (variable.nullable)
    element.expected.resize(element.expected.size() - std::string_view(" or null").size());
  const ListRule rule = list_rule(range.min_size, range.max_size, variable.fixed_size, variable.nullable,
                                  plural("integers", range_text(range)));
  Field field = list_field<WideInteger>(
      std::move(name), "list of integers", variable, rule,
      [element](const ConfigNode& node, ErrorList& errors) {
        return read_integer_value(node, errors, element);
      },
      [](WideInteger v) { return ConfigNode::scalar(format_integer(v)); });
  field.range = range_text(range);
  field.doc = std::move(doc);
  field.unit = std::move(unit);
  return add(std::move(field));
}

Fields& Fields::texts(std::string name, Slot<std::vector<std::string>> variable, std::string doc,
                      std::string unit) {
  ListRule rule = list_rule(0, ListRule{}.max_size, 0, variable.nullable, "texts");
  rule.single_allowed = true;
  Field field = list_field<std::string>(
      std::move(name), "list of texts", variable, rule,
      [](const ConfigNode& node, ErrorList& errors) { return read_text_value(node, errors, "a text"); },
      write_text);
  field.doc = std::move(doc);
  field.unit = std::move(unit);
  return add(std::move(field));
}

Fields& Fields::paths(std::string name, Slot<std::vector<std::string>> variable, std::string doc) {
  ListRule rule = list_rule(0, ListRule{}.max_size, 0, variable.nullable, "paths");
  rule.single_allowed = true;
  Field field = list_field<std::string>(
      std::move(name), "list of paths", variable, rule,
      [](const ConfigNode& node, ErrorList& errors) { return read_path_value(node, errors, "a path"); },
      write_text);
  field.doc = std::move(doc);
  return add(std::move(field));
}

Fields& Fields::triples(std::string name, Slot<std::vector<std::array<std::int64_t, 3>>> variable,
                        IntegerRange range, std::string doc, std::string unit) {
  using Triple = std::array<std::int64_t, 3>;
  std::int64_t integer = 0;
  const IntegerRule element = integer_rule(range, Slot<WideInteger>(integer));
  const ListRule triple = list_rule(3, 3, 0, false, plural("integers", range_text(range)));
  const ListRule rule = list_rule(range.min_size, range.max_size, 0, variable.nullable,
                                  plural("triples of integers", range_text(range)));
  const ReadElement<WideInteger> read_integer_element = [element](const ConfigNode& node, ErrorList& errors) {
    return read_integer_value(node, errors, element);
  };
  Field field = list_field<Triple>(
      std::move(name), "list of integer triples", variable, rule,
      [triple, read_integer_element](const ConfigNode& node, ErrorList& errors) -> std::optional<Triple> {
        const auto three = read_list<WideInteger>(node, errors, triple, read_integer_element);
        if (!three) return std::nullopt;
        return slot_detail::convert<Triple>(*three);
      },
      [](const Triple& value) {
        ConfigNode node = ConfigNode::list();
        for (const std::int64_t v : value) node.append(ConfigNode::scalar(format_integer(v)));
        return node;
      });
  field.range = range_text(range);
  field.doc = std::move(doc);
  field.unit = std::move(unit);
  return add(std::move(field));
}

}  // namespace tandem

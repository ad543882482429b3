// From the texts of a field (type, range as range_text writes it, default) to its schema.
#include "core/config/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "core/config/numbers.h"

namespace tandem {
namespace {

// A JSON object, member by member.
class Members {
 public:
  explicit Members(int depth) : indent_(static_cast<std::size_t>(2 * depth), ' ') {}
  void add(std::string_view key, const std::string& json) {
    body_ += fmt::format("{}\n  {}\"{}\": {}", body_.empty() ? "" : ",", indent_, key, json);
  }
  std::string text() const { return body_.empty() ? "{}" : fmt::format("{{{}\n{}}}", body_, indent_); }

 private:
  std::string indent_, body_;
};

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 32)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  out += '"';
  return out;
}

std::string list_of(const std::vector<std::string>& items) {
  return fmt::format("[{}]", fmt::join(items, ", "));
}

// A value of the tree as JSON. Plain scalars that are numbers in JSON's grammar, true, false and null stay as
// they are.
std::string json_value(const ConfigNode& node) {
  if (node.is_null()) return "null";
  if (node.is_scalar()) {
    const std::string& text = node.text();
    const bool plain = !node.quoted() && (text == "true" || text == "false" ||
                                          (read_number(text).value.has_value() && text.back() != '.'));
    return plain ? text : json_text(text);
  }
  std::vector<std::string> items;
  for (const ConfigNode& item : node.items()) items.push_back(json_value(item));
  for (const ConfigEntry& entry : node.entries())
    items.push_back(json_text(entry.key) + ": " + json_value(entry.value));
  return node.is_map() ? fmt::format("{{{}}}", fmt::join(items, ", ")) : list_of(items);
}

// "> 0 and <= 10" -> exclusiveMinimum and maximum.
void add_bounds(const std::string& range, Members& members) {
  std::istringstream words(range);
  std::string sign, number;
  while (words >> sign) {
    if (sign == "and" || !(words >> number)) continue;
    const bool lower = sign[0] == '>', exclusive = sign.size() == 1;
    members.add(
        lower ? (exclusive ? "exclusiveMinimum" : "minimum") : (exclusive ? "exclusiveMaximum" : "maximum"),
        number);
  }
}

std::string words_of(const Field& field) {
  std::vector<std::string> words;
  std::istringstream stream(field.range);
  for (std::string word; std::getline(stream >> std::ws, word, ',');) words.push_back(json_text(word));
  if (field.nullable) words.push_back("null");
  return list_of(words);
}

std::string with_bounds(const std::string& type, const std::string& range, int depth) {
  Members element(depth);
  element.add("type", type);
  add_bounds(range, element);
  return element.text();
}

// The keywords of one value's type. A type that is not known here allows anything.
void add_type(const Field& field, int depth, Members& members) {
  const std::string& type = field.type;
  const auto is = [&](std::string_view name) {
    return type == name || type == std::string(name) + " or null";
  };
  const auto typed = [&](std::vector<std::string> names) {
    for (std::string& name : names) name = json_text(name);
    if (field.nullable) names.push_back("\"null\"");
    return names.size() == 1 ? names.front() : list_of(names);
  };
  if (is("choice")) return members.add("enum", words_of(field));
  if (is("flag")) return members.add("type", typed({"boolean"}));
  if (is("text") || is("path")) return members.add("type", typed({"string", "number", "boolean"}));
  if (is("bytes")) return members.add("type", typed({"integer", "string"}));
  if (is("list of texts") || is("list of paths"))
    return members.add("type", typed({"array", "string", "number", "boolean"}));
  if (is("number") || is("integer")) {
    members.add("type", typed({is("number") ? "number" : "integer"}));
    return add_bounds(field.range, members);
  }
  if (type == "integer or auto") {
    members.add("anyOf",
                list_of({with_bounds("\"integer\"", field.range, depth + 1), "{\"const\": \"auto\"}"}));
    return;
  }
  if (is("number or list of numbers")) return members.add("type", typed({"number", "array", "null"}));
  const bool triples = is("list of integer triples");
  if (!triples && !is("list of numbers") && !is("list of integers")) return;
  members.add("type", typed({"array"}));
  const std::string element =
      with_bounds(is("list of numbers") ? "\"number\"" : "\"integer\"", field.range, depth + 1);
  members.add(
      "items",
      triples
          ? fmt::format("{{\"type\": \"array\", \"minItems\": 3, \"maxItems\": 3, \"items\": {}}}", element)
          : element);
}

std::string describe_map(const Fields& fields, int depth, bool is_root);

std::string describe_field(const Fields& fields, const Field& field, int depth) {
  std::string doc = field.doc;
  if (!field.unit.empty()) doc += fmt::format(" [{}]", field.unit);
  for (const Fields::Condition& c : fields.conditions())
    if (std::ranges::find(c.keys, field.name) != c.keys.end())
      doc += fmt::format(" (only with {}: {})", c.selector, fmt::join(c.values, ", "));
  Members members(depth);
  members.add("description", json_text(doc));
  if (field.kind == Field::Kind::kValue) {
    add_type(field, depth, members);
    members.add("default", json_value(field.write()));
  } else if (field.kind == Field::Kind::kList) {
    members.add("type", "\"array\"");
    members.add("items", describe_map(field.example(), depth + 1, false));
  } else {
    const std::string map = describe_map(field.example(), depth + 1, false);
    members.add(field.nullable ? "anyOf" : "allOf",
                field.nullable ? list_of({"{\"type\": \"null\"}", map}) : list_of({map}));
  }
  return members.text();
}

std::string describe_map(const Fields& fields, int depth, bool is_root) {
  Members properties(depth + 1);
  if (is_root)
    properties.add(
        "inherit",
        "{\"description\": \"Job files that this one builds on, left to right\", \"type\": [\"array\", "
        "\"string\"], \"items\": {\"type\": \"string\"}}");
  for (const Field& field : fields.all())
    properties.add(field.name, describe_field(fields, field, depth + 2));
  Members map(depth);
  map.add("type", "\"object\"");
  map.add("additionalProperties", "false");
  map.add("properties", properties.text());
  return map.text();
}

}  // namespace

std::string describe_json_schema(const Fields& fields, const std::string& title) {
  std::string map = describe_map(fields, 0, true);
  return fmt::format(
      "{{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"title\": {},{}\n",
      json_text(title), map.substr(1));
}

}  // namespace tandem

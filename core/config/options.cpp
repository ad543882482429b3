// Whole option structs: reading a map into described fields with every error found, emission, and the table
// for docs.
#include <fmt/format.h>

#include <algorithm>

#include "core/config/fields.h"
#include "core/config/nearest.h"
#include "core/config/numbers.h"

namespace tandem {
namespace {

// The only_for condition that forbids `key` at present, or null.
const Fields::Condition* failing_condition(const Fields& fields, std::string_view key) {
  for (const Fields::Condition& condition : fields.conditions()) {
    if (std::find(condition.keys.begin(), condition.keys.end(), key) == condition.keys.end()) continue;
    const Field* selector = fields.find(condition.selector);
    check_internal(selector != nullptr, "only_for names a selector that is no field: " + condition.selector);
    const std::string value = selector->write().text();
    if (std::find(condition.values.begin(), condition.values.end(), value) == condition.values.end())
      return &condition;
  }
  return nullptr;
}

std::vector<std::string> names_of(const Fields& fields) {
  std::vector<std::string> names;
  for (const Field& field : fields.all()) names.push_back(field.name);
  return names;
}

class Reader {
 public:
  Reader(const Fields& root, ErrorList& errors) : root_(root), errors_(errors) {}

  void map(const ConfigNode& node, const Fields& fields) {
    if (!node.is_map()) {
      errors_.wrong(node, "a map of 'key: value'", note_for_map(node, fields));
      return;
    }
    const int before = errors_.count();
    const bool selectors_read = read_selectors(node, fields);
    for (const ConfigEntry& entry : node.entries()) {
      const Field* field = fields.find(entry.key);
      if (field == nullptr)
        unknown(entry, fields);
      else if (!is_selector(fields, entry.key) && (!selectors_read || applies(node, entry, fields)))
        read_field(entry, *field);
    }
    absent_maps(node, fields);
    for (const std::string& key : fields.required_keys())
      if (node.find(key) == nullptr) {
        errors_.add(fmt::format("the key '{}' is missing", join_key(errors_.path(), key)), node.position());
        errors_.mark_wrong(key);
      }
    const bool is_sound = errors_.count() == before;
    for (const Fields::Rule& rule : fields.rules())
      if (rule.keys.empty() ? is_sound : !errors_.is_any_wrong(rule.keys)) rule.check(errors_);
  }

 private:
  // What a value in place of a map may have meant.
  static std::string note_for_map(const ConfigNode& node, const Fields& fields) {
    if (!node.is_scalar()) return "";
    if (!node.quoted() && node.text().find(':') != std::string::npos) return "is a space missing after ':'?";
    if (fields.find("name") != nullptr)
      return fmt::format("for example {{name: {}}}", printable(node.text(), 40));
    return "";
  }

  static bool is_selector(const Fields& fields, std::string_view key) {
    return std::any_of(fields.conditions().begin(), fields.conditions().end(),
                       [&](const Fields::Condition& c) { return c.selector == key; });
  }

  // Selectors first: what else may be written depends on them. False if one of them is wrong.
  bool read_selectors(const ConfigNode& node, const Fields& fields) {
    const int before = errors_.count();
    for (const ConfigEntry& entry : node.entries())
      if (const Field* field = fields.find(entry.key); field != nullptr && is_selector(fields, entry.key))
        read_field(entry, *field);
    return errors_.count() == before;
  }

  bool applies(const ConfigNode& node, const ConfigEntry& entry, const Fields& fields) {
    const Fields::Condition* failing = failing_condition(fields, entry.key);
    if (failing == nullptr) return true;
    const ConfigEntry* selector = node.find(failing->selector);
    const bool selected_later =
        selector != nullptr && selector->value.position().rank() > entry.value.position().rank();
    if (selected_later) return false;
    errors_.mark_wrong(entry.key);
    errors_.add(fmt::format("'{}' has no meaning with {}: {}", join_key(errors_.path(), entry.key),
                            failing->selector, fields.find(failing->selector)->write().text()),
                entry.key_position,
                fmt::format("it belongs to {}: {}", failing->selector, fmt::join(failing->values, ", ")));
    return false;
  }

  void read_field(const ConfigEntry& entry, const Field& field) {
    const ErrorList::Scope scope(errors_, entry.key, entry.value.is_map() ? &entry.value : nullptr);
    const ConfigNode& node = entry.value;
    if (field.kind == Field::Kind::kValue) {
      field.read(node, errors_);
    } else if (field.kind == Field::Kind::kGroup) {
      if (node.is_null() && field.nullable)
        field.clear();
      else
        map(node, field.open());
    } else {
      read_items(node, field);
    }
  }

  // A map that is not written has its defaults, which must obey its rules and required keys too.
  void absent_maps(const ConfigNode& node, const Fields& fields) {
    for (const Field& field : fields.all()) {
      if (field.kind != Field::Kind::kGroup || field.nullable || node.find(field.name) != nullptr) continue;
      if (failing_condition(fields, field.name) != nullptr) continue;
      ConfigNode empty = ConfigNode::map();
      empty.set_position(node.position());
      const ErrorList::Scope scope(errors_, field.name, &empty);
      map(empty, field.open());
    }
  }

  void read_items(const ConfigNode& node, const Field& field) {
    if (!node.is_list()) {
      errors_.wrong(node, "a list of maps");
      return;
    }
    field.clear();
    for (const ConfigNode& item : node.items()) {
      const ErrorList::Scope scope(errors_, fmt::format("[{}]", &item - node.items().data()), &item);
      map(item, field.open());
    }
  }

  void unknown(const ConfigEntry& entry, const Fields& fields) {
    std::string note;
    const std::size_t colon = entry.key.find(':');
    errors_.mark_wrong(entry.key.substr(0, colon));
    if (entry.value.is_null() && colon != std::string::npos) {
      note = "is a space missing after ':'?";
    } else if (entry.value.is_null() && entry.key.find_first_not_of("0123456789eE-") == std::string::npos) {
      note = "the decimal sign is '.'";
    } else if (!errors_.full()) {
      if (all_.empty()) {
        all_ = all_keys(root_);
        all_.push_back("inherit");
      }
      const std::vector<std::string> siblings = names_of(fields);
      const std::string nearest = nearest_key(entry.key, errors_.path(), siblings, all_);
      if (!nearest.empty()) {
        note = fmt::format("did you mean '{}'? ", nearest);
        errors_.mark_wrong_in_full(fields.find(nearest) != nullptr ? join_key(errors_.path(), nearest)
                                                                   : nearest);
      }
      note += fmt::format("Keys here: {}", fmt::join(siblings, ", "));
    }
    errors_.add(fmt::format("unknown key '{}'", printable(join_key(errors_.path(), entry.key), 120)),
                entry.key_position, std::move(note));
  }

  const Fields& root_;
  ErrorList& errors_;
  std::vector<std::string> all_;
};

void collect_keys(const Fields& fields, const std::string& path, std::vector<std::string>& keys) {
  for (const Field& field : fields.all()) {
    const std::string key = join_key(path, field.name);
    keys.push_back(key);
    if (field.kind == Field::Kind::kGroup) collect_keys(field.example(), key, keys);
    if (field.kind == Field::Kind::kList) collect_keys(field.example(), key + "[]", keys);
  }
}

// '|' would end a table cell, '<' before a word would start HTML.
std::string cell(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : ' ';
    if (text[i] == '|' || (text[i] == '<' && next >= 'a' && next <= 'z')) out += '\\';
    out += text[i];
  }
  return out;
}

void describe(const Fields& fields, const std::string& path, std::string& out) {
  for (const Field& field : fields.all()) {
    const std::string key = join_key(path, field.name);
    std::string value;
    if (field.kind == Field::Kind::kValue) value = fmt::format("`{}`", to_flow_yaml(field.write()));
    if (field.kind == Field::Kind::kGroup && field.nullable && field.present().empty()) value = "`null`";
    if (field.kind == Field::Kind::kList) value = "`[]`";
    std::string only;
    for (const Fields::Condition& c : fields.conditions())
      if (std::find(c.keys.begin(), c.keys.end(), field.name) != c.keys.end())
        only += fmt::format(" (only with {}: {})", c.selector, fmt::join(c.values, ", "));
    out += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", key, field.type, cell(field.range), cell(value),
                       field.unit, cell(field.doc + only));
    if (field.kind == Field::Kind::kGroup) describe(field.example(), key, out);
    if (field.kind == Field::Kind::kList) describe(field.example(), key + "[]", out);
  }
}

}  // namespace

bool Fields::applies(std::string_view key) const { return failing_condition(*this, key) == nullptr; }

ConfigNode Fields::emit() const {
  ConfigNode node = ConfigNode::map();
  for (const Field& field : fields_) {
    if (!applies(field.name)) continue;
    if (field.kind == Field::Kind::kValue) {
      node.set(field.name, field.write());
      continue;
    }
    const std::vector<Fields> present = field.present();
    if (field.kind == Field::Kind::kGroup) {
      node.set(field.name, present.empty() ? ConfigNode() : present.front().emit());
    } else {
      ConfigNode& list = node.set(field.name, ConfigNode::list());
      for (const Fields& item : present) list.append(item.emit());
    }
  }
  return node;
}

void parse_options(const ConfigNode& node, const Fields& fields, ErrorList& errors) {
  const ErrorList::Scope scope(errors, "", &node);
  if (node.is_null())
    Reader(fields, errors).map(ConfigNode::map(), fields);
  else
    Reader(fields, errors).map(node, fields);
}

void parse_options(const ConfigNode& node, const Fields& fields) {
  ErrorList errors;
  parse_options(node, fields, errors);
  errors.throw_if_any();
}

std::string emit_yaml(const Fields& fields) { return to_yaml(fields.emit()); }

std::string describe_markdown(const Fields& fields) {
  std::string out =
      "| key | type | range or values | default | unit | meaning |\n|---|---|---|---|---|---|\n";
  describe(fields, "", out);
  return out;
}

std::vector<std::string> all_keys(const Fields& fields) {
  std::vector<std::string> keys;
  collect_keys(fields, "", keys);
  return keys;
}

}  // namespace tandem

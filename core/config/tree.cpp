// ConfigNode: building, merging, and how a value looks in an error message.
#include "core/config/tree.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/config/numbers.h"

namespace tandem {

std::string Position::text() const {
  if (!source) return "";
  if (!source->has_lines) return source->name;
  return fmt::format("{}:{}:{}", source->name, line, column);
}

std::string Position::origin() const {
  if (!source) return "default";
  if (!source->has_lines) return source->name.substr(0, source->name.find(':'));
  return fmt::format("{}:{}", source->name, line);
}

ConfigNode ConfigNode::scalar(std::string text, bool quoted) {
  ConfigNode node;
  node.kind_ = NodeKind::kScalar;
  node.text_ = std::move(text);
  node.quoted_ = quoted;
  return node;
}

ConfigNode ConfigNode::list(std::vector<ConfigNode> items) {
  ConfigNode node;
  node.kind_ = NodeKind::kList;
  node.items_ = std::move(items);
  return node;
}

ConfigNode ConfigNode::map() {
  ConfigNode node;
  node.kind_ = NodeKind::kMap;
  return node;
}

const ConfigEntry* ConfigNode::find(std::string_view key) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.key == key; });
  return found == entries_.end() ? nullptr : &*found;
}

ConfigEntry* ConfigNode::find(std::string_view key) {
  return const_cast<ConfigEntry*>(std::as_const(*this).find(key));
}

ConfigNode& ConfigNode::append(ConfigNode item) { return items_.emplace_back(std::move(item)); }

ConfigNode& ConfigNode::set(std::string key, ConfigNode value, Position key_position) {
  ConfigEntry* const found = find(key);
  if (found == nullptr)
    return entries_.emplace_back(ConfigEntry{std::move(key), std::move(key_position), std::move(value)})
        .value;
  found->key_position = std::move(key_position);
  found->value = std::move(value);
  return found->value;
}

void ConfigNode::add_new(ConfigEntry entry) { entries_.push_back(std::move(entry)); }

void ConfigNode::erase(std::string_view key) {
  std::erase_if(entries_, [&](const ConfigEntry& e) { return e.key == key; });
}

void ConfigNode::merge(ConfigNode later) {
  if (!is_map() || !later.is_map()) {
    *this = std::move(later);
    return;
  }
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < entries_.size(); ++i) places.emplace(entries_[i].key, i);
  for (ConfigEntry& entry : later.entries_) {
    const auto found = places.find(entry.key);
    if (found == places.end()) {
      entries_.push_back(std::move(entry));
      continue;
    }
    ConfigEntry& mine = entries_[found->second];
    mine.key_position = std::move(entry.key_position);
    mine.value.merge(std::move(entry.value));
  }
  position_ = std::move(later.position_);
}

std::string ConfigNode::shown() const {
  switch (kind_) {
    case NodeKind::kNull:
      return "null";
    case NodeKind::kScalar:
      return fmt::format("{}'{}'", quoted_ ? "the quoted text " : "", printable(text_, 60));
    case NodeKind::kList:
      return items_.empty() ? "an empty list" : fmt::format("a list of {}", items_.size());
    case NodeKind::kMap:
      break;
  }
  if (entries_.empty()) return "an empty map";
  std::string keys;
  for (std::size_t i = 0; i < std::min<std::size_t>(entries_.size(), 3); ++i)
    keys += fmt::format("{}{}", i > 0 ? ", " : "", printable(entries_[i].key, 30));
  return fmt::format("a map {{{}{}}}", keys, entries_.size() > 3 ? ", .." : "");
}

}  // namespace tandem

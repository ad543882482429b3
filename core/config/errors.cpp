// Composition of collected errors in the format of a compiler: what, then "-->" and the place.
#include "core/config/errors.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <tuple>

#include "core/config/numbers.h"

namespace tandem {

std::string join_key(std::string_view path, std::string_view part) {
  if (part.empty()) return std::string(path);
  if (path.empty() || part.starts_with('[')) return fmt::format("{}{}", path, part);
  return fmt::format("{}.{}", path, part);
}

ErrorList::Scope::Scope(ErrorList& errors, std::string_view part, const ConfigNode* map)
    : errors_(errors), old_length_(errors.path_.size()), old_map_(errors.map_) {
  errors.path_ = join_key(errors.path_, part);
  if (map != nullptr) errors.map_ = map;
}

ErrorList::Scope::~Scope() {
  errors_.path_.resize(old_length_);
  errors_.map_ = old_map_;
}

void ErrorList::add(std::string text, const Position& place, std::string note) {
  const std::string where = place.text();
  if (!where.empty()) text += "\n  --> " + where;
  if (!note.empty()) text += (where.empty() ? "\n  " : "     ") + note;
  entries_.push_back({std::move(text), place});
}

void ErrorList::wrong(const ConfigNode& node, std::string_view expected, std::string note) {
  mark_wrong("");
  const std::string name = path_.empty() ? "the job" : fmt::format("'{}'", printable(path_, 120));
  add(fmt::format("{}: got {}, expected {}", name, node.shown(), expected), node.position(), std::move(note));
}

void ErrorList::rule(std::string_view key, std::string_view text, std::string note) {
  mark_wrong(key);
  add(fmt::format("'{}': {}", printable(join_key(path_, key), 120), text), find(key).place, std::move(note));
}

ErrorList::Found ErrorList::find(std::string_view key) const {
  if (map_ == nullptr) return {};
  Found found{map_->position()};
  const ConfigNode* node = map_;
  while (!key.empty()) {
    if (key.front() == '[') {
      const std::size_t end = key.find(']');
      std::size_t index = 0;
      std::from_chars(key.data() + 1, key.data() + end, index);
      if (index >= node->items().size()) return found;
      node = &node->items()[index];
      found.place = node->position();
      key.remove_prefix(end + 1);
    } else {
      const std::size_t end = std::min(key.find_first_of(".["), key.size());
      const ConfigEntry* entry = node->find(key.substr(0, end));
      if (entry == nullptr) return found;
      node = &entry->value;
      found.place = entry->key_position;
      key.remove_prefix(end);
    }
    if (key.starts_with('.')) key.remove_prefix(1);
  }
  found.whole = true;
  return found;
}

std::optional<Position> ErrorList::written_at(std::string_view key) const {
  const Found found = find(key);
  return found.whole ? std::optional(found.place) : std::nullopt;
}

bool ErrorList::is_any_wrong(std::span<const std::string> keys) const {
  const auto inside = [](std::string_view part, std::string_view whole) {
    return part.starts_with(whole) && (whole.empty() || part.size() == whole.size() ||
                                       part[whole.size()] == '.' || part[whole.size()] == '[');
  };
  return std::ranges::any_of(keys, [&](const std::string& key) {
    const std::string full = join_key(path_, key);
    return std::ranges::any_of(
        wrong_, [&](const std::string& other) { return inside(other, full) || inside(full, other); });
  });
}

std::vector<std::string> ErrorList::lines() const {
  const auto order = [](const Entry& entry) {
    const Position& place = entry.place;
    const bool has_line = place.source && place.source->has_lines;
    return has_line ? std::tuple(0, -place.rank(), place.line, place.column)
                    : std::tuple(1, place.source ? place.rank() : 0, 0, 0);
  };
  std::vector<const Entry*> sorted;
  for (const Entry& entry : entries_) sorted.push_back(&entry);
  std::ranges::stable_sort(sorted, {}, [&](const Entry* entry) { return order(*entry); });
  std::vector<std::string> lines;
  for (const Entry* entry : sorted) lines.push_back(entry->text);
  return lines;
}

void ErrorList::throw_if_any(ErrorKind kind) const {
  if (empty()) return;
  std::string text;
  const std::vector<std::string> all = lines();
  for (std::size_t i = 0; i < all.size() && i < kMaxShown; ++i) text += (i > 0 ? "\nerror: " : "") + all[i];
  if (count() > kMaxShown) text += fmt::format("\n(and {} more)", count() - kMaxShown);
  if (count() > 1) text += fmt::format("\n{} errors, nothing was run", count());
  throw Error(kind, text + "\n");
}

}  // namespace tandem

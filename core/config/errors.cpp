// Composition of collected errors in the format of a compiler: what, then "-->" and the place.
#include "core/config/errors.h"

#include <fmt/core.h>

#include "core/base/error.h"
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
  ++count_;
  if (shown_.size() >= kMaxShown) return;
  const std::string where = place.text();
  if (!where.empty()) text += "\n  --> " + where;
  if (!note.empty()) text += (where.empty() ? "\n  " : "     ") + note;
  shown_.push_back(std::move(text));
}

void ErrorList::wrong(const ConfigNode& node, std::string_view expected, std::string note) {
  const std::string name = path_.empty() ? "the job" : fmt::format("'{}'", printable(path_, 120));
  add(fmt::format("{}: got {}, expected {}", name, node.shown(), expected), node.position(), std::move(note));
}

void ErrorList::rule(std::string_view key, std::string_view text, std::string note) {
  Position place;
  const ConfigNode* node = map_;
  if (node != nullptr) place = node->position();
  std::string_view rest = key;
  while (node != nullptr && !rest.empty()) {
    const std::size_t dot = rest.find('.');
    const ConfigEntry* entry = node->find(rest.substr(0, dot));
    if (entry == nullptr) break;
    place = entry->key_position;
    node = &entry->value;
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  }
  add(fmt::format("'{}': {}", printable(join_key(path_, key), 120), text), place, std::move(note));
}

void ErrorList::throw_if_any() const {
  if (empty()) return;
  std::string text;
  for (const std::string& one : shown_) text += (text.empty() ? "" : "\nerror: ") + one;
  if (count_ > static_cast<int>(shown_.size()))
    text += fmt::format("\n(and {} more)", count_ - shown_.size());
  if (count_ > 1) text += fmt::format("\n{} errors, nothing was run", count_);
  throw Error(ErrorKind::kConfig, text + "\n");
}

}  // namespace tandem

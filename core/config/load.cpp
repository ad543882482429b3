// inherit and overrides.
#include "core/config/load.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <vector>

#include "core/base/error.h"
#include "core/config/errors.h"
#include "core/config/numbers.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void stop(const std::string& text, const Position& place, const std::string& note = "") {
  ErrorList errors;
  errors.add(text, place, note);
  errors.throw_if_any();
  throw Error(ErrorKind::kInternal, "[config] an error list without an error");
}

class Loader {
 public:
  // Adds the tree of `path` and those it inherits, the strongest first: the file itself, then its list from
  // right to left, each followed by what it inherits in turn. Ranks fall from 0.
  void load(const fs::path& path, const Position& named_at) {
    const fs::path identity = identify(path);
    if (std::find(chain_.begin(), chain_.end(), identity) != chain_.end())
      stop(fmt::format("'inherit' comes back to {}", path.string()), named_at,
           "a file cannot inherit from itself");
    if (static_cast<int>(chain_.size()) > kMaxInheritDepth)
      stop(fmt::format("'inherit' is nested deeper than {}", kMaxInheritDepth), named_at);
    if (static_cast<int>(trees_.size()) >= kMaxInheritFiles)
      stop(fmt::format("'inherit' reads more than {} files", kMaxInheritFiles), named_at);
    require_file(path, named_at);
    ConfigNode tree = parse_yaml_file(path, -static_cast<int>(trees_.size()));
    if (!tree.is_map() && !tree.is_null()) {
      const bool missing_space = tree.is_scalar() && tree.text().find(':') != std::string::npos;
      stop(fmt::format("the job: got {}, expected a map of 'key: value'", tree.shown()), tree.position(),
           missing_space ? "is a space missing after ':'?" : "");
    }
    const std::vector<ConfigNode> files = inherited_files(tree);
    tree.erase("inherit");
    trees_.push_back(std::move(tree));
    chain_.push_back(identity);
    for (auto file = files.rbegin(); file != files.rend(); ++file)
      load(file->position().source->folder / file->text(), file->position());
    chain_.pop_back();
  }

  ConfigNode merged() {
    ConfigNode all = ConfigNode::map();
    all.set_position(trees_.front().position());
    for (auto tree = trees_.rbegin(); tree != trees_.rend(); ++tree)
      if (tree->is_map()) all.merge(std::move(*tree));
    return all;
  }

 private:
  static fs::path identify(const fs::path& path) {
    std::error_code error;
    fs::path identity = fs::weakly_canonical(path, error);
    return error ? fs::absolute(path).lexically_normal() : identity;
  }

  static void require_file(const fs::path& path, const Position& named_at) {
    std::error_code error;
    if (named_at.source && !fs::is_regular_file(path, error))
      stop(fmt::format("'inherit': got '{}', expected a file that exists", path.string()), named_at);
  }

  static std::vector<ConfigNode> inherited_files(const ConfigNode& node) {
    const ConfigEntry* entry = node.find("inherit");
    if (entry == nullptr || entry->value.is_null()) return {};
    if (entry->value.is_scalar()) return {entry->value};
    ErrorList errors;
    const ErrorList::Scope scope(errors, "inherit");
    if (!entry->value.is_list()) errors.wrong(entry->value, "a list of files");
    for (const ConfigNode& item : entry->value.items())
      if (!item.is_scalar() || item.text().empty()) errors.wrong(item, "a file");
    errors.throw_if_any();
    return entry->value.items();
  }

  std::vector<fs::path> chain_;
  std::vector<ConfigNode> trees_;
};

}  // namespace

void apply_override(ConfigNode& root, std::string_view override_text, int rank) {
  ConfigSource source{fmt::format("command line: {}", printable(override_text, 80)), {}, false, rank};
  const Position place{std::make_shared<const ConfigSource>(source), 1, 1};
  const std::size_t equals = override_text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    stop(fmt::format("an override: got '{}', expected key=value", printable(override_text, 80)), place,
         "for example optimizer.lr=1e-3");
  const std::string_view key = override_text.substr(0, equals);
  const std::string_view value_text = override_text.substr(equals + 1);
  if (key == "inherit")
    stop("an override: got 'inherit', expected a key of the job", place,
         "files are inherited by the list 'inherit' of a job file only");
  if (value_text.find_first_not_of(" \t") == std::string_view::npos)
    stop(fmt::format("'{}': got no value after '=', expected one", printable(key, 80)), place,
         fmt::format("{}=null unsets it", printable(key, 80)));
  ConfigNode value = parse_yaml_text(value_text, std::move(source));

  ConfigNode* map = &root;
  int depth = 0;
  std::string_view rest = key;
  while (true) {
    if (!map->is_map()) {
      *map = ConfigNode::map();
      map->set_position(place);
    }
    const std::size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    if (part.empty())
      stop(fmt::format("an override: got the key '{}', expected names joined by '.'", printable(key, 80)),
           place);
    if (dot == std::string_view::npos) {
      map->set(part, std::move(value), place);
      return;
    }
    ConfigEntry* entry = map->find(part);
    map = entry != nullptr ? &entry->value : &map->set(part, ConfigNode(), place);
    if (++depth > kMaxConfigDepth) stop(fmt::format("nested deeper than {} levels", kMaxConfigDepth), place);
    rest.remove_prefix(dot + 1);
  }
}

ConfigNode load_config(const fs::path& path, std::span<const std::string> overrides) {
  Loader loader;
  loader.load(path, {});
  ConfigNode root = loader.merged();
  int rank = 1;
  for (const std::string& text : overrides) apply_override(root, text, rank++);
  return root;
}

}  // namespace tandem

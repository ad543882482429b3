// The parsed text of a job file: a tree of scalars, lists and maps that knows where each part was written,
// and the strict YAML reader that makes it. No meaning lives here: types and ranges are in fields.h, files
// and overrides in load.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// What a value was read from.
struct ConfigSource {
  std::string name;  // as shown: "unet.yaml", or "command line: optimizer.lr=1e-3"
  std::filesystem::path
      folder;             // relative paths inside are relative to this folder; empty: the current folder
  bool has_lines = true;  // false: the command line, shown without line and column
  int rank = 0;           // order of merging; a later source has the larger rank
};

// Where something was written. Lines and columns count from 1, columns in characters (not bytes).
struct Position {
  std::shared_ptr<const ConfigSource> source;  // null: written nowhere (a default)
  int line = 0;
  int column = 0;

  std::string text() const;    // "unet.yaml:14:3", "command line: optimizer.lr=1e-3", "" without a source
  std::string origin() const;  // "unet.yaml:14", "command line", "default"
  int rank() const { return source ? source->rank : std::numeric_limits<int>::min(); }
};

enum class NodeKind { kNull, kScalar, kList, kMap };

struct ConfigEntry;

// A value of the tree. Maps keep the order in which their keys were written.
class ConfigNode {
 public:
  ConfigNode() = default;  // null
  static ConfigNode scalar(std::string text, bool quoted = false);
  static ConfigNode list(std::vector<ConfigNode> items = {});
  static ConfigNode map();

  NodeKind kind() const { return kind_; }
  bool is_null() const { return kind_ == NodeKind::kNull; }
  bool is_scalar() const { return kind_ == NodeKind::kScalar; }
  bool is_list() const { return kind_ == NodeKind::kList; }
  bool is_map() const { return kind_ == NodeKind::kMap; }

  const std::string& text() const { return text_; }  // of a scalar, else empty
  bool quoted() const { return quoted_; }            // written in quotes or as a block: never a number
  const std::vector<ConfigNode>& items() const { return items_; }       // of a list, else empty
  const std::vector<ConfigEntry>& entries() const { return entries_; }  // of a map, else empty
  const ConfigEntry* find(std::string_view key) const;                  // null if absent or not a map
  ConfigEntry* find(std::string_view key);

  const Position& position() const { return position_; }
  void set_position(Position position) { position_ = std::move(position); }

  ConfigNode& append(ConfigNode item);  // to a list; returns the item in place
  // Sets `key` of a map: replaces the value (and the place it was written) or appends; returns the value in
  // place.
  ConfigNode& set(std::string key, ConfigNode value, Position key_position = {});
  void add_new(ConfigEntry entry);  // set() for a key known to be absent: no search
  void erase(std::string_view key);
  // Later values win: maps merge key by key, anything else is replaced by `later`.
  void merge(ConfigNode later);

  // How an error message shows it: '2.5', "a list of 3", "a map with keys a, b", "null".
  std::string shown() const;

 private:
  NodeKind kind_ = NodeKind::kNull;
  bool quoted_ = false;
  std::string text_;
  std::vector<ConfigNode> items_;
  std::vector<ConfigEntry> entries_;
  Position position_;
};

struct ConfigEntry {
  std::string key;
  Position key_position;
  ConfigNode value;
};

inline constexpr std::int64_t kMaxConfigBytes = 1 << 20;
inline constexpr int kMaxConfigDepth = 64;
inline constexpr std::int64_t kMaxConfigNodes = 100000;

// Reads one YAML document: block and flow style, scalars, lists, maps with text keys. Refused, each as
// Error{kConfig} with file:line:column: anchors, aliases, tags, merge keys, more documents, NUL, BOM, bytes
// that are not UTF-8, duplicate keys, unterminated quotes, and what exceeds kMaxConfig*. An empty document is
// null.
ConfigNode parse_yaml_text(std::string_view text, ConfigSource source);
ConfigNode parse_yaml_text(std::string_view text, std::string file_name);
// The same for a file; the source's folder is the folder of `path`. Error{kUsage} if it cannot be read.
ConfigNode parse_yaml_file(const std::filesystem::path& path, int rank = 0);

// `text` in YAML: scalars are quoted where this or another reader would take them for something else; lists
// of scalars are written in one line. With `origins`, a comment says where each scalar and list came from:
// the node at the same path of `origins`, else "default".
std::string to_yaml(const ConfigNode& node, const ConfigNode* origins = nullptr);
// One line of flow style: "[1, 2]", "{a: 1}", "text".
std::string to_flow_yaml(const ConfigNode& node);

}  // namespace tandem

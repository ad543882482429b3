// From a path and overrides to one merged tree: `inherit:` and `key=value`. What the keys mean is in
// fields.h.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/config/tree.h"

namespace tandem {

inline constexpr int kMaxInheritDepth = 8;
inline constexpr int kMaxInheritFiles = 64;

// Reads `path`, merges the files of its `inherit:` list (relative to the file that names them) left to right
// below it, then applies the overrides in order. Maps merge key by key, anything else is replaced. Every
// value keeps the position where it was written; the key `inherit` is gone. Error{kConfig}: not YAML, cycles,
// depth > 8, > 64 files, a bad override; Error{kUsage}: a file that cannot be read.
ConfigNode load_config(const std::filesystem::path& path, std::span<const std::string> overrides = {});

// Sets a value: "optimizer.lr=1e-3", "model.features=[8, 16]", "data.labels={a: 1}". The value is YAML and
// replaces what was there, maps too; missing maps on the way are made.
void apply_override(ConfigNode& root, std::string_view override_text, int rank);

}  // namespace tandem

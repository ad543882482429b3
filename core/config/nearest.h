// Which known name a mistyped one meant: other frameworks' words for ours, then edit distance. For keys of a
// job file and for commands and flags.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Edits (insert, delete, substitute, swap of neighbours) that turn `a` into `b`: optimal string alignment
// (Damerau-Levenshtein where no part is edited twice). Letters are compared as they are.
int edit_distance(std::string_view a, std::string_view b);

// The nearest of `names`: at most 1 edit for words up to 3 letters, else at most max(2, length / 3); else the
// first name of which `word` is the beginning, or that is the beginning of `word` (3 letters or more). "" if
// none. `-`, `_` and capitals make no difference. Other words for a dtype (float16, half) come first.
std::string nearest_name(std::string_view word, std::span<const std::string> names);

// What the unknown key `word` in the map at `path` ("" for the root) meant: the name of one of `siblings`, or
// a full key of `all`, or "". In order: known other words for a sibling, then for a key elsewhere; a sibling
// one edit away; the same name elsewhere; the nearest sibling; the nearest full key or last part of one; a
// known other word, mistyped.
std::string nearest_key(std::string_view word, std::string_view path, std::span<const std::string> siblings,
                        std::span<const std::string> all);

}  // namespace tandem

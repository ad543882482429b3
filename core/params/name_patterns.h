// Patterns of names in a job file that fit no layer: what precision and optimizer groups refuse. Matching
// itself is core/params/precision.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tandem {

struct UnmatchedPattern {
  std::size_t index = 0;  // in the list of patterns
  std::string pattern;
  std::string hint;  // "Did you mean 'head0'?", or what names look like
};

// Those of `patterns` that cover none of `names` (of parameters; pattern_covers).
std::vector<UnmatchedPattern> unmatched_patterns(std::span<const std::string> patterns,
                                                 const std::vector<std::string>& names);

}  // namespace tandem

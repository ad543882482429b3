// Name patterns and the dtype they give a layer.
#include "core/params/precision.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/config/nearest.h"
#include "core/params/name_patterns.h"

namespace tandem {

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {  // let the last '*' take one more character
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool pattern_covers(std::string_view pattern, std::string_view parameter) {
  for (std::size_t dot = parameter.find('.'); dot != std::string_view::npos;
       dot = parameter.find('.', dot + 1))
    if (glob_match(pattern, parameter.substr(0, dot))) return true;
  return glob_match(pattern, parameter);
}

std::vector<UnmatchedPattern> unmatched_patterns(std::span<const std::string> patterns,
                                                 const std::vector<std::string>& names) {
  std::vector<UnmatchedPattern> unmatched;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const std::string& pattern = patterns[i];
    if (std::ranges::any_of(names, [&](const std::string& n) { return pattern_covers(pattern, n); }))
      continue;
    std::vector<std::string> candidates;  // names of modules and parameters
    for (const std::string& n : names)
      for (std::size_t dot = n.find('.');; dot = n.find('.', dot + 1)) {
        const std::string part = n.substr(0, dot);
        if (std::ranges::find(candidates, part) == candidates.end()) candidates.push_back(part);
        if (dot == std::string::npos) break;
      }
    const std::string near = nearest_name(pattern, candidates);
    unmatched.push_back({i, pattern,
                         near.empty()
                             ? fmt::format("Names are such as '{}'.", names.empty() ? "" : names.front())
                             : fmt::format("Did you mean '{}'?", near)});
  }
  return unmatched;
}

void require_pattern_matches(std::span<const std::string> patterns, std::string_view key,
                             const std::vector<std::string>& names, std::string_view expected) {
  for (const UnmatchedPattern& wrong : unmatched_patterns(patterns, names))
    throw Error(ErrorKind::kConfig,
                fmt::format("[{}] {} matches nothing: got '{}', expected {}", key.substr(0, key.find('.')),
                            key, wrong.pattern, expected),
                wrong.hint);
}

DType Precision::dtype_of(std::string_view name) const {
  const bool stays_fp32 = std::ranges::any_of(
      fp32_layers, [&](const std::string& pattern) { return pattern_covers(pattern, name); });
  return stays_fp32 ? DType::kF32 : compute;
}

}  // namespace tandem

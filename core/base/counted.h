// Counts with their nouns, as people read them: "1 case", "2 cases". Every text with a count that can be 1
// goes through here.
#pragma once

#include <fmt/core.h>

#include <concepts>
#include <string>
#include <string_view>

namespace tandem {

// `plural`: that of a noun which does not just take an s ("patches").
template <std::integral Count>
std::string counted(Count count, std::string_view noun, std::string_view plural = "") {
  if (count == 1) return fmt::format("1 {}", noun);
  return plural.empty() ? fmt::format("{} {}s", count, noun) : fmt::format("{} {}", count, plural);
}

}  // namespace tandem

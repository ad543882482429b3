// Name patterns and the dtype they give.
#include "core/params/precision.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(GlobMatch, StarTakesAnyRunAndQuestionMarkOne) {
  const struct {
    const char *pattern, *text;
    bool matches;
  } rows[] = {
      {"", "", true},
      {"", "a", false},
      {"*", "", true},
      {"*", "a.b", true},
      {"a", "a", true},
      {"a", "ab", false},
      {"enc?", "enc0", true},
      {"enc?", "enc", false},
      {"enc?", "enc10", false},
      {"*.bias", "enc0.conv1.bias", true},
      {"*.bias", "bias", false},
      {"a*b*c", "aXbYbZc", true},
      {"a*b*c", "aXbYbZ", false},
      {"**a", "bba", true},
      {"a.c", "abc", false},
      {"*ab", "aab", true},
      {"head*", "head", true},
  };
  for (const auto& row : rows)
    EXPECT_EQ(glob_match(row.pattern, row.text), row.matches) << row.pattern << " on " << row.text;
}

TEST(GlobMatch, ManyStarsTakeNoExponentialTime) {
  const std::string text(20000, 'a');
  EXPECT_FALSE(glob_match("*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}

TEST(PatternCovers, TheWholeNameOrAModuleThatHoldsIt) {
  const char* name = "enc0.conv1.weight";
  for (const char* pattern : {"enc0", "enc0.conv1", "enc0.conv1.weight", "enc*", "*.conv?", "*.weight", "*"})
    EXPECT_TRUE(pattern_covers(pattern, name)) << pattern;
  for (const char* pattern : {"conv1", "enc", "enc0.conv", "weight", "enc0.", ""})
    EXPECT_FALSE(pattern_covers(pattern, name)) << pattern;
}

TEST(Precision, Fp32LayersBeatLowLayers) {
  const Precision precision{DType::kF16, {"head*"}, {"*"}};
  EXPECT_EQ(precision.dtype_of("enc0.conv1.weight"), DType::kF16);
  EXPECT_EQ(precision.dtype_of("head0.weight"), DType::kF32);
}

}  // namespace
}  // namespace tandem

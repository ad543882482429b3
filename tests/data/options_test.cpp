// The data part of the job file: reading, writing back, and errors.
#include "data/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

DataOptions parse(const std::string& text) {
  DataOptions options;
  const Fields description = fields(options);
  parse_options(parse_yaml_text(text, "job.yaml"), description);
  return options;
}

constexpr const char* kExample =
    "labels: {background: 0, hip: [77, 78], gluteus_maximus: [80, 81]}\n"
    "other_labels: background\n"
    "normalize: [{channel: 0, kind: zscore, clip: [-1000, 1000]}, {channel: 1, kind: ct, mean: 60, std: "
    "30}]\n"
    "cache: none\n"
    "workers: 2\n";

TEST(DataOptions, ReadsLabelsInOrderAndWritesThemBack) {
  DataOptions options = parse(kExample);
  ASSERT_EQ(options.classes(), 3);
  EXPECT_EQ(options.labels[1].name, "hip");
  EXPECT_THAT(options.labels[1].values, ElementsAre(77, 78));
  EXPECT_EQ(options.other_labels, OtherLabels::kBackground);
  EXPECT_EQ(options.normalize.size(), 2u);
  EXPECT_EQ((*options.normalize[0].clip)[1], 1000);
  EXPECT_EQ(options.normalize[1].kind, NormalizeKind::kCt);
  EXPECT_EQ(options.normalize[1].std, 30);
  EXPECT_EQ(options.cache, CacheKind::kNone);
  EXPECT_EQ(options.workers, 2);
  const std::string written = emit_yaml(fields(options));
  DataOptions again = parse(written);
  EXPECT_EQ(emit_yaml(fields(again)), written);
}

TEST(DataOptions, BadValuesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"cache: ram\n", "labels"},
      {"labels: [0, 1]\n", "a map of class names to values"},
      {"labels: {background: 0, a: x}\n", "a whole number within 32 bits"},
      {"labels: {background: 0, a: [1, 2.5]}\n", "a whole number within 32 bits"},
      {"labels: {background: 0, a: 5000000000}\n", "a whole number within 32 bits"},
      {"labels: {background: 0, a: []}\n", "at least one value"},
      {"labels: {background: 0}\n", "got 1 classes, expected 2 to 255"},
      {"labels: {a: 0, b: 1}\n", "got 'a' as the first class, expected 'background'"},
      {"labels: {background: 0, a: [1, 2], b: 2}\n", "got value 2 in both 'a' and 'b'"},
      {"labels: {background: 0, a: 1}\nnormalize: [{clip: [3, 1]}]\n",
       "got [3, 1], expected a lower and a higher number"},
      {"labels: {background: 0, a: 1}\nnormalize: [{channel: 1}, {channel: 1}]\n", "got channel 1 twice"},
      {"labels: {background: 0, a: 1}\nnormalize: [{kind: zscore, mean: 3}]\n", "mean"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_THAT(error_of(ErrorKind::kConfig, [&] { parse(text); }), HasSubstr(expected)) << text;
}

TEST(DataOptions, AugmentAxesAndRanges) {
  const auto parse_augment = [](const std::string& text) {
    AugmentOptions options;
    const Fields description = fields(options);
    parse_options(parse_yaml_text(text, "job.yaml"), description);
    return options;
  };
  const AugmentOptions options =
      parse_augment("{mirror: [x, z], noise_std: 0.05, brightness: [0.9, 1.1], probability: {noise: 0.5}}");
  EXPECT_EQ(axes_of(options.mirror), (std::vector<int>{2, 0}));
  EXPECT_EQ(options.probability.noise, 0.5);
  EXPECT_EQ(options.probability.mirror, 0.5);
  EXPECT_FALSE(parse_augment("{}").brightness.has_value());
  using Range = std::optional<std::array<double, 2>>;
  EXPECT_EQ(options.noise_std, (Range{{0.05, 0.05}}));  // one number: always that
  EXPECT_EQ(parse_augment("{noise_std: [0, 0.1]}").noise_std, (Range{{0, 0.1}}));
  EXPECT_EQ(parse_augment("{noise_std: 0}").noise_std, Range());
  EXPECT_EQ(parse_augment("{noise_std: null}").noise_std, Range());
  for (const char* text : {"-1", "[0.1, 0]", "[0, 0.1, 0.2]", "[0.1]", "[]", "x", "[0, x]", "{a: 1}", "'1'"})
    EXPECT_THAT(error_of(ErrorKind::kConfig, [&] { parse_augment(fmt::format("{{noise_std: {}}}", text)); }),
                HasSubstr("expected a number >= 0 and <= 1.0e+06, or a lower and a higher one as [0, 0.1]"))
        << text;
  for (const char* text : {"0", "0.05", "[0, 0.1]"}) {
    AugmentOptions written = parse_augment(fmt::format("{{noise_std: {}}}", text));
    EXPECT_THAT(emit_yaml(fields(written)), HasSubstr(fmt::format("noise_std: {}\n", text)));
  }
  EXPECT_THAT(error_of(ErrorKind::kConfig, [&] { parse_augment("{mirror: [w]}"); }),
              HasSubstr("got 'w', expected x, y or z"));
  EXPECT_THAT(error_of(ErrorKind::kConfig, [&] { parse_augment("{mirror: [x, x]}"); }), HasSubstr("twice"));
}

}  // namespace
}  // namespace tandem

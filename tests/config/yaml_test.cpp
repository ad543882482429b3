// The strict YAML reader: what it accepts, and the exact text and place of every refusal.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/config/tree.h"
#include "tests/config/sample_options.h"

namespace tandem {
namespace {

using config_test::error_text;

struct Case {
  std::string yaml, error;  // of the file t.yaml; without the final newline
};

std::string refusal(const std::string& yaml) {
  return error_text([&] { parse_yaml_text(yaml, "t.yaml"); });
}

TEST(Yaml, RefusesWithTheExactTextAndPlace) {
  const std::vector<Case> cases = {
      {"a: 1\nb: [1, 2", "a '[' is never closed by ']'\n  --> t.yaml:2:4     or a ',' is missing"},
      {"a: 1\nb: {x: 1", "a '{' is never closed by '}'\n  --> t.yaml:2:4     or a ',' is missing"},
      {"a: \"abc\nb: 2", "a quote that starts here is never closed\n  --> t.yaml:1:4"},
      {"a: 'abc\nb: 2", "a quote that starts here is never closed\n  --> t.yaml:1:4"},
      {"a: 'it''s", "a quote that starts here is never closed\n  --> t.yaml:1:4"},
      {"a: 1\nb: {k: 'v ', w: \"x, y: 2}\n---\n",
       "a quote that starts here is never closed\n  --> t.yaml:2:17"},
      {"a: \"x\\\"", "a quote that starts here is never closed\n  --> t.yaml:1:4"},
      {"a: &x 1", "an anchor ('&') is not allowed in a job file\n  --> t.yaml:1:4     write the value out"},
      {"a: &x\n  b: 1",
       "an anchor ('&') is not allowed in a job file\n  --> t.yaml:1:4     write the value out"},
      {"a: *x", "an alias ('*') is not allowed in a job file\n  --> t.yaml:1:4     write the value out"},
      {"b: &y {c: *y}",
       "an anchor ('&') is not allowed in a job file\n  --> t.yaml:1:4     write the value out\n"
       "error: an alias ('*') is not allowed in a job file\n  --> t.yaml:1:11     write the value out\n"
       "2 errors, nothing was run"},
      {"a: !!int 5",
       "a tag ('!') is not allowed in a job file\n  --> t.yaml:1:4     types follow from the keys"},
      {"a: ! 5", "a tag ('!') is not allowed in a job file\n  --> t.yaml:1:4     types follow from the keys"},
      {"a: !foo {b: 1}",
       "a tag ('!') is not allowed in a job file\n  --> t.yaml:1:4     types follow from the keys"},
      {"x:\n  <<: {a: 1}",
       "a merge key ('<<') is not allowed in a job file\n  --> t.yaml:2:3     use inherit: [file.yaml]"},
      {"a: 1\n---\nb: 2", "a second document starts here\n  --> t.yaml:2:1     a job is one document"},
      {"  a: 1\nb: 2", "this line does not fit what is above it\n  --> t.yaml:2:1     check the indentation"},
      {"a: 1\n\tb: 2", "a tab in the indentation\n  --> t.yaml:2:1     use spaces"},
      {"a:\n\tb: 2", "a tab in the indentation\n  --> t.yaml:2:3     use spaces"},
      {"a: 1\n  b: 2",
       "a 'key: value' is not possible here\n  --> t.yaml:2:4     check the indentation, and quote texts "
       "with ': '"},
      {"a: b: c",
       "a 'key: value' is not possible here\n  --> t.yaml:1:5     check the indentation, and quote texts "
       "with ': '"},
      {"? [a]\n: b\n", "a list or map as a key\n  --> t.yaml:1:3     a key is a text"},
      {"{[a]: 1}", "a list or map as a key\n  --> t.yaml:1:2     a key is a text"},
      {": 1", "a key is missing in front of ':'\n  --> t.yaml:1:1"},
      {"\"ü€\": 1\n\"ü€\": 2", "'ü€' is given twice\n  --> t.yaml:2:1     first at t.yaml:1:1"},
      {"train:\n  epochs: 1\n  x: 2\n  epochs: 3",
       "'train.epochs' is given twice\n  --> t.yaml:4:3     first at t.yaml:2:3"},
      {"a: {b: 1, b: 2}", "'a.b' is given twice\n  --> t.yaml:1:11     first at t.yaml:1:5"},
      {"m: [1, {a: 1, a: 2}]", "'m[1].a' is given twice\n  --> t.yaml:1:15     first at t.yaml:1:9"},
      {"a: - 1", "a '- ' is not possible here\n  --> t.yaml:1:4     check the indentation"},
      {"a: ]", "a ']' or '}' that closes nothing\n  --> t.yaml:1:4"},
      {"a: @x", "a character that cannot start a value here\n  --> t.yaml:1:4     quote the text"},
      {"a: %x", "a character that cannot start a value here\n  --> t.yaml:1:4     quote the text"},
      {"a: \"\\q\"",
       "an unknown escape after '\\' in a double-quoted text\n  --> t.yaml:1:7     use single quotes for a "
       "text with "
       "backslashes"},
      {"a: \"\\0\"", "a text with the character NUL\n  --> t.yaml:1:4"},
      {std::string("a: b\0c", 6), "the character NUL\n  --> t.yaml:1:5     a job is a text file"},
      {"a: \x01", "the control character 0x01\n  --> t.yaml:1:4     a job is a text file"},
      {"\xef\xbb\xbf"
       "a: 1",
       "starts with a byte order mark, expected plain UTF-8\n  --> t.yaml:1:1     save the file as UTF-8 "
       "without a mark"},
      {"\xff\xfe"
       "a",
       "starts with a byte order mark, expected plain UTF-8\n  --> t.yaml:1:1     save the file as UTF-8 "
       "without a mark"},
      {"a: \xff", "the byte 0xff is not UTF-8\n  --> t.yaml:1:4     save the file as UTF-8 without a mark"},
      {"a: \xc0\xaf",
       "the byte 0xc0 is not UTF-8\n  --> t.yaml:1:4     save the file as UTF-8 without a mark"},  // overlong
                                                                                                   // '/'
      {"a: \xe0\x80\xaf",
       "the byte 0xe0 is not UTF-8\n  --> t.yaml:1:4     save the file as UTF-8 without a mark"},
      {"a: \xf0\x80\x80\xaf",
       "the byte 0xf0 is not UTF-8\n  --> t.yaml:1:4     save the file as UTF-8 without a mark"},
      {"a: \xed\xa0\x80",
       "the byte 0xed is not UTF-8\n  --> t.yaml:1:4     save the file as UTF-8 without a mark"},  // surrogate
      {"a: \xf4\x90\x80\x80",
       "the byte 0xf4 is not UTF-8\n  --> t.yaml:1:4     save the file as UTF-8 without a mark"},  // above
                                                                                                   // U+10FFFF
      {"ü: \xe2\x82",
       "the byte 0xe2 is not UTF-8\n  --> t.yaml:1:4     save the file as UTF-8 without a mark"},  // cut
      {"a: 1\rb: 2",
       "a carriage return without a line feed\n  --> t.yaml:1:5     save the file with line feeds at the "
       "ends of lines"},
      {"a: \"x\" y",
       "this line does not fit the map above it\n  --> t.yaml:1:8     check the indentation and the ':' "
       "after a key"},
      {"b: 1\n  - 2",
       "a text over several lines\n  --> t.yaml:1:4     put it in quotes, or check the indentation below it"},
  };
  EXPECT_GE(cases.size(), 40u);
  for (const Case& c : cases) EXPECT_EQ(refusal(c.yaml), c.error + "\n") << "for the YAML:\n" << c.yaml;
}

TEST(Yaml, ReadsWhatAJobNeeds) {
  const ConfigNode root = parse_yaml_text(
      "# a comment\n---\nname: \"quoted 'x'\"  # after a value\nempty:\ntilde: ~\nlist: [1, b, [2]]\nmap:\n"
      "  block: |\n    two\n    lines\n  'single''s': {a: 1.5}\n  items:\n  - x: 1\n    z: 2\n  - null\n",
      "t.yaml");
  EXPECT_EQ(
      to_flow_yaml(root),
      "{name: \"quoted 'x'\", empty: null, tilde: null, list: [1, b, [2]], map: {block: \"two\\nlines\\n\", "
      "\"single's\": {a: 1.5}, items: [{x: 1, z: 2}, null]}}");
  EXPECT_TRUE(root.find("name")->value.quoted());
  EXPECT_FALSE(root.find("list")->value.items()[0].quoted());
}

TEST(Yaml, PositionsCountCharactersFromOne) {
  const ConfigNode root = parse_yaml_text("é: [ü, x]\r\nmap:\r\n  key: value\r\nnothing:\r\n", "t.yaml");
  EXPECT_EQ(root.find("é")->key_position.text(), "t.yaml:1:1");
  EXPECT_EQ(root.find("é")->value.position().text(), "t.yaml:1:4");
  EXPECT_EQ(root.find("é")->value.items()[1].position().text(), "t.yaml:1:8");
  const ConfigEntry* key = root.find("map")->value.find("key");
  EXPECT_EQ(key->key_position.text(), "t.yaml:3:3");
  EXPECT_EQ(key->value.position().text(), "t.yaml:3:8");
  EXPECT_EQ(root.find("nothing")->value.position().text(), "t.yaml:4:1");
}

TEST(Yaml, EmptyFilesAreNull) {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n", "null"})
    EXPECT_TRUE(parse_yaml_text(text, "t.yaml").is_null()) << text;
}

TEST(Yaml, LimitsHold) {
  const std::string nested_100000 = "a: " + std::string(100000, '[');
  EXPECT_EQ(refusal(nested_100000 + std::string(100000, ']')),
            "nested deeper than 64 levels\n  --> t.yaml:1:67\n");
  EXPECT_EQ(refusal(nested_100000),
            "a '[' is never closed by ']'\n  --> t.yaml:1:5     or a ',' is missing\n");
  std::string deep_block;
  for (int i = 0; i < 300; ++i) deep_block += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_EQ(refusal(deep_block), "nested deeper than 64 levels\n  --> t.yaml:65:65\n");
  const std::string allowed = std::string(63, '[') + std::string(63, ']');
  EXPECT_EQ(refusal("a: " + allowed), "no error");
  EXPECT_EQ(refusal("a: [" + allowed + "]"), "nested deeper than 64 levels\n  --> t.yaml:1:67\n");

  std::string fits = "a:\n";  // with the map, its key and the list 100000 nodes
  for (int i = 0; i < 99997; ++i) fits += "- 1\n";
  EXPECT_EQ(refusal(fits), "no error");
  EXPECT_EQ(refusal(fits + "- 1\n"), "more than 100000 values\n  --> t.yaml:99999:3\n");

  const std::string long_text = "a: " + std::string((1 << 20) - 3, 'x');
  EXPECT_EQ(refusal(long_text), "no error");
  EXPECT_EQ(refusal(long_text + "x"), "1048577 bytes long, expected at most 1048576\n  --> t.yaml:1:1\n");
}

TEST(Yaml, AliasBombsAreRefusedAtTheirFirstAnchor) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += fmt::format("a{}: &a{} [", i, i);
    for (int k = 0; k < 10; ++k) bomb += fmt::format("*a{},", i - 1);
    bomb += "]\n";
  }
  const std::string text = refusal(bomb);
  EXPECT_TRUE(text.starts_with("an anchor ('&') is not allowed in a job file\n  --> t.yaml:1:5     write"))
      << text;
  EXPECT_TRUE(text.ends_with("(and 69 more)\n89 errors, nothing was run\n")) << text;
}

TEST(Yaml, ManyDuplicateKeysStayLinear) {
  std::string text;
  for (int i = 0; i < 40000; ++i) text += fmt::format("k{}: 1\n", i);
  EXPECT_EQ(parse_yaml_text(text, "t.yaml").entries().size(), 40000u);
}

}  // namespace
}  // namespace tandem

// Text to numbers and back: grammar, exactness, limits, independence of the locale.
#include "core/config/numbers.h"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <cstdint>
#include <limits>
#include <locale>
#include <random>
#include <string>

#include "core/config/tree.h"

namespace tandem {
namespace {

TEST(Numbers, ReadsDecimals) {
  EXPECT_EQ(read_number("1e-3").value, 0.001);
  EXPECT_EQ(read_number(".5").value, 0.5);
  EXPECT_EQ(read_number("5.").value, 5.0);
  EXPECT_EQ(read_number("+2").value, 2.0);
  EXPECT_EQ(read_number("-0.25E+2").value, -25.0);
  EXPECT_EQ(read_number("0").value, 0.0);
  EXPECT_TRUE(std::signbit(*read_number("-0").value));
  EXPECT_EQ(read_number("1.7976931348623157e308").value, std::numeric_limits<double>::max());
  EXPECT_EQ(read_number("2.2250738585072014e-308").value, std::numeric_limits<double>::min());
  EXPECT_EQ(read_number("0.1").value, 0.1);
}

TEST(Numbers, RefusesWhatIsAmbiguousOrNotFinite) {
  const char* const leading = "a leading zero is ambiguous (octal or decimal): write 10";
  EXPECT_EQ(read_number("010").note, leading);
  EXPECT_EQ(read_integer("010").note, leading);
  EXPECT_EQ(read_integer("-0010").note, leading);
  EXPECT_EQ(read_integer("00").note, "a leading zero is ambiguous (octal or decimal): write 0");
  for (const char* text : {"inf", ".inf", "-.Inf", "nan", ".NaN", "Infinity"}) {
    EXPECT_FALSE(read_number(text).value) << text;
    EXPECT_EQ(read_number(text).note, "a number must be finite") << text;
  }
  EXPECT_EQ(read_number("1_000").note, "write the digits without '_'");
  EXPECT_EQ(read_integer("1_000").note, "write the digits without '_'");
  EXPECT_EQ(read_number("0,5").note, "the decimal sign is '.'");
  EXPECT_EQ(read_number("0x10").note, "write it in decimal");
  EXPECT_EQ(read_number("1e400").note, "its magnitude does not fit a double (2.2e-308 to 1.8e308)");
  EXPECT_EQ(read_number("1e-400").note, "its magnitude does not fit a double (2.2e-308 to 1.8e308)");
  for (const char* text :
       {"", "+", "-", ".", "e5", "1e", "1e+", "1.2.3", "1 2", " 1", "1 ", "--1", "1f", "0b1",
        "\xc2\xa0"
        "1"})
    EXPECT_FALSE(read_number(text).value) << "'" << text << "'";
}

TEST(Numbers, IntegersAreExactInEveryForm) {
  const auto integer = [](const char* text) { return read_integer(text).value; };
  EXPECT_EQ(integer("8"), WideInteger{8});
  EXPECT_EQ(integer("1e3"), WideInteger{1000});
  EXPECT_EQ(integer("2.0"), WideInteger{2});
  EXPECT_EQ(integer("2.50e1"), WideInteger{25});
  EXPECT_EQ(integer("1200e-2"), WideInteger{12});
  EXPECT_EQ(integer("0x1F"), WideInteger{31});
  EXPECT_EQ(integer("-0x10"), WideInteger{-16});
  EXPECT_EQ(integer("9007199254740993"), WideInteger{9007199254740993});  // 2^53 + 1: no double between
  EXPECT_EQ(integer("18446744073709551615"), WideInteger{std::numeric_limits<std::uint64_t>::max()});
  EXPECT_EQ(integer("0e99999"), std::nullopt);
  EXPECT_EQ(integer("0.000e5"), WideInteger{0});
  for (const char* text : {"2.5", "1e-3", "0x", "0xg", "0x1.8", "1e", "25e-1", "", "-"})
    EXPECT_FALSE(integer(text)) << text;
  EXPECT_EQ(read_integer("1e30").value, static_cast<WideInteger>(1e15) * static_cast<WideInteger>(1e15));
  EXPECT_EQ(read_integer("1e39").note, "too large");
  EXPECT_EQ(read_integer("0x10000000000000000").note, "too large");
  EXPECT_EQ(read_integer(std::string(400, '9')).note, "too large");
}

TEST(Numbers, Bytes) {
  const auto bytes = [](const char* text) { return read_bytes(text).value; };
  EXPECT_EQ(bytes("8GiB"), WideInteger{8589934592});
  EXPECT_EQ(bytes("8 gib"), WideInteger{8589934592});
  EXPECT_EQ(bytes("1.5GiB"), WideInteger{1610612736});
  EXPECT_EQ(bytes("0.1KB"), WideInteger{100});
  EXPECT_EQ(bytes("512MB"), WideInteger{512000000});
  EXPECT_EQ(bytes("2TB"), WideInteger{2000000000000});
  EXPECT_EQ(bytes("3TiB"), WideInteger{3298534883328});
  EXPECT_EQ(bytes("7B"), WideInteger{7});
  EXPECT_EQ(bytes("4096"), WideInteger{4096});
  for (const char* text : {"GiB", "0.1B", "8Gi", "8GG", "08GiB", "8 G iB", "", "0.3KiB"})
    EXPECT_FALSE(bytes(text)) << text;
  EXPECT_EQ(format_bytes(8589934592), "8GiB");
  EXPECT_EQ(format_bytes(1536), "1536");
  EXPECT_EQ(format_bytes(3072), "3KiB");
  EXPECT_EQ(format_bytes(0), "0");
}

TEST(Numbers, FormattedNumbersReadBackToTheSameBits) {
  EXPECT_EQ(format_number(1e-5), "1.0e-05");
  EXPECT_EQ(format_number(0.002), "0.002");
  EXPECT_EQ(format_number(65536), "65536");
  EXPECT_EQ(format_number(1.25e-30), "1.25e-30");
  EXPECT_EQ(format_number(0.1f), "0.10000000149011612");
  EXPECT_EQ(format_number(0.1f, true), "0.1");
  std::mt19937_64 random(1);
  int checked = 0;
  while (checked < 20000) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value) || std::fpclassify(value) == FP_SUBNORMAL) continue;
    ++checked;
    const auto read = read_number(format_number(value)).value;
    ASSERT_TRUE(read) << format_number(value);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(*read), std::bit_cast<std::uint64_t>(value))
        << format_number(value);
    const auto single = static_cast<float>(value);
    if (!std::isnormal(single)) continue;
    ASSERT_EQ(static_cast<float>(*read_number(format_number(single, true)).value), single);
  }
}

TEST(Numbers, SubnormalsSurvive) {
  EXPECT_EQ(read_number("5e-324").value, std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(read_number(format_number(5e-324)).value, 5e-324);
}

TEST(Numbers, KnowNoLocale) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  const bool found =
      std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr || std::setlocale(LC_ALL, "de_DE.utf8") != nullptr;
  const auto value = read_number("0.5").value;
  const std::string text = format_number(0.5);
  std::setlocale(LC_ALL, before.c_str());
  EXPECT_EQ(value, 0.5);
  EXPECT_EQ(text, "0.5");
  if (!found) GTEST_SKIP() << "no locale de_DE.UTF-8 here: only the present locale was tried";
}

TEST(Numbers, KnowNoStreamLocale) {
  struct CommaPoint : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale(), new CommaPoint));
  const ConfigNode tree = parse_yaml_text("a: [0.5, 123456]", "t.yaml");
  const auto value = read_number(tree.find("a")->value.items()[0].text()).value;
  const std::string texts =
      format_number(1234.5) + " " + format_integer(1234567) + " " + format_bytes(1000000);
  std::locale::global(before);
  EXPECT_EQ(value, 0.5);
  EXPECT_EQ(texts, "1234.5 1234567 1000000");
}

TEST(Numbers, PrintableTextIsEscapedAndCut) {
  EXPECT_EQ(printable("a\nb\x1b[31m", 60), "a\\nb\\x1b[31m");
  EXPECT_EQ(printable("éééé", 3), "ééé..");
  EXPECT_EQ(printable("éééé", 4), "éééé");
}

}  // namespace
}  // namespace tandem

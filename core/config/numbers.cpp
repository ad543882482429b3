// Number grammar and exact conversion. std::from_chars and std::to_chars know no locale.
#include "core/config/numbers.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace tandem {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lowered(std::string_view text) {
  std::string out;
  for (const char c : text) out += lower(c);
  return out;
}

// The parts of a decimal number.
struct Decimal {
  bool negative = false;
  std::string_view whole, fraction;
  std::string_view exponent;  // with its sign; empty: none
};

std::string_view take_digits(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

std::optional<Decimal> split_decimal(std::string_view text) {
  Decimal parts;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    parts.negative = text[0] == '-';
    text.remove_prefix(1);
  }
  parts.whole = take_digits(text);
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    parts.fraction = take_digits(text);
  }
  if (parts.whole.empty() && parts.fraction.empty()) return std::nullopt;
  if (!text.empty() && lower(text[0]) == 'e') {
    text.remove_prefix(1);
    std::string_view rest = text;
    if (!rest.empty() && (rest[0] == '+' || rest[0] == '-')) rest.remove_prefix(1);
    if (take_digits(rest).empty()) return std::nullopt;
    parts.exponent = text.substr(0, text.size() - rest.size());
    text = rest;
  }
  if (!text.empty()) return std::nullopt;
  return parts;
}

// Why `text` is not a decimal number, as far as it can be guessed.
std::string why_not_decimal(std::string_view text) {
  std::string word = lowered(text);
  if (!word.empty() && (word[0] == '+' || word[0] == '-')) word.erase(0, 1);
  if (word == "inf" || word == ".inf" || word == "infinity" || word == "nan" || word == ".nan")
    return "a number must be finite";
  if (text.find("${") != std::string_view::npos) return "variables are not replaced: give it as KEY=VALUE";
  const bool starts_like_one = !word.empty() && (is_digit(word[0]) || word[0] == '.');
  if (starts_like_one && word.find('_') != std::string::npos) return "write the digits without '_'";
  if (starts_like_one && word.find(',') != std::string::npos) return "the decimal sign is '.'";
  if (word.starts_with("0x") || word.starts_with("0o") || word.starts_with("0b"))
    return "write it in decimal";
  return "";
}

bool has_leading_zero(std::string_view whole) { return whole.size() > 1 && whole[0] == '0'; }

std::string leading_zero_note(std::string_view whole) {
  whole.remove_prefix(std::min(whole.find_first_not_of('0'), whole.size() - 1));
  return fmt::format("a leading zero is ambiguous (octal or decimal): write {}", whole);
}

constexpr WideInteger kWideMax = static_cast<WideInteger>(~static_cast<unsigned __int128>(0) >> 1);

// value * 10 + digit, or false where that does not fit.
bool push_digit(WideInteger& value, int digit) {
  if (value > (kWideMax - digit) / 10) return false;
  value = value * 10 + digit;
  return true;
}

NumberReading<WideInteger> read_hexadecimal(std::string_view digits, bool negative) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.empty() || error == std::errc::invalid_argument || end != digits.data() + digits.size())
    return {};
  if (error == std::errc::result_out_of_range) return {std::nullopt, "too large"};
  return {negative ? -static_cast<WideInteger>(value) : static_cast<WideInteger>(value), ""};
}

// The exact value of `parts` times `factor` if that is an integer.
NumberReading<WideInteger> exact_integer(const Decimal& parts, WideInteger factor) {
  int exponent = 0;
  std::string_view digits = parts.exponent;
  if (!digits.empty() && digits[0] == '+') digits.remove_prefix(1);
  if (!digits.empty()) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (error != std::errc() || exponent > 10000 || exponent < -10000)
      return {std::nullopt, "too large an exponent"};
  }
  std::string_view fraction = parts.fraction;
  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  WideInteger value = 0;
  for (const std::string_view group : {parts.whole, fraction})
    for (const char c : group)
      if (!push_digit(value, c - '0')) return {std::nullopt, "too large"};
  if (value > kWideMax / factor) return {std::nullopt, "too large"};
  value *= factor;
  int shift = exponent - static_cast<int>(fraction.size());
  for (; value != 0 && shift > 0; --shift)
    if (!push_digit(value, 0)) return {std::nullopt, "too large"};
  for (; value != 0 && shift < 0; ++shift) {
    if (value % 10 != 0) return {};
    value /= 10;
  }
  return {parts.negative ? -value : value, ""};
}

struct ByteUnit {
  std::string_view name;
  WideInteger size;
};
constexpr std::array<ByteUnit, 9> kByteUnits{{{"TiB", WideInteger{1} << 40},
                                              {"GiB", WideInteger{1} << 30},
                                              {"MiB", WideInteger{1} << 20},
                                              {"KiB", WideInteger{1} << 10},
                                              {"TB", 1000000000000},
                                              {"GB", 1000000000},
                                              {"MB", 1000000},
                                              {"KB", 1000},
                                              {"B", 1}}};

}  // namespace

NumberReading<double> read_number(std::string_view text) {
  const std::optional<Decimal> parts = split_decimal(text);
  if (!parts) return {std::nullopt, why_not_decimal(text)};
  if (has_leading_zero(parts->whole)) return {std::nullopt, leading_zero_note(parts->whole)};
  if (text[0] == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    return {std::nullopt, "its magnitude does not fit a double (2.2e-308 to 1.8e308)"};
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return {value, ""};
}

NumberReading<WideInteger> read_integer(std::string_view text) {
  const bool negative = !text.empty() && text[0] == '-';
  const std::string_view unsigned_text =
      text.substr(!text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0);
  if (unsigned_text.starts_with("0x")) return read_hexadecimal(unsigned_text.substr(2), negative);
  const std::optional<Decimal> parts = split_decimal(text);
  if (!parts) return {std::nullopt, why_not_decimal(text)};
  if (has_leading_zero(parts->whole)) return {std::nullopt, leading_zero_note(parts->whole)};
  return exact_integer(*parts, 1);
}

NumberReading<WideInteger> read_bytes(std::string_view text) {
  WideInteger factor = 1;
  for (const ByteUnit& unit : kByteUnits) {
    if (!lowered(text).ends_with(lowered(unit.name))) continue;
    factor = unit.size;
    text.remove_suffix(unit.name.size());
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    break;
  }
  const std::optional<Decimal> parts = split_decimal(text);
  if (!parts) return {std::nullopt, why_not_decimal(text)};
  if (has_leading_zero(parts->whole)) return {std::nullopt, leading_zero_note(parts->whole)};
  return exact_integer(*parts, factor);
}

std::string format_number(double value, bool single_precision) {
  std::array<char, 64> buffer;
  char* const first = buffer.data();
  char* const last = first + buffer.size();
  const auto result = single_precision ? std::to_chars(first, last, static_cast<float>(value))
                                       : std::to_chars(first, last, value);
  std::string text(first, result.ptr);
  const std::size_t e = text.find('e');
  if (e != std::string::npos && text.find('.') == std::string::npos) text.insert(e, ".0");
  return text;
}

std::string format_integer(WideInteger value) { return fmt::format("{}", value); }

std::string format_bytes(WideInteger value) {
  for (const ByteUnit& unit : kByteUnits)
    if (unit.name.ends_with("iB") && value != 0 && value % unit.size == 0)
      return fmt::format("{}{}", value / unit.size, unit.name);
  return format_integer(value);
}

std::string printable(std::string_view text, std::size_t max_characters) {
  std::string out;
  std::size_t count = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0u) != 0x80u && ++count > max_characters) return out + "..";
    if (c == '\n')
      out += "\\n";
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

}  // namespace tandem

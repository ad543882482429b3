// Text to numbers and back, the same in every locale: strict decimal forms, exact integers, byte sizes,
// shortest round-trip output. Ranges and messages about keys are in fields.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/config/slot.h"

namespace tandem {

// A number, or why the text is none: `note` is then a sentence part for the error ("" where there is nothing
// to add).
template <class T>
struct NumberReading {
  std::optional<T> value;
  std::string note;
};

// [+-] digits [. digits] [e [+-] digits], one of the digit groups around '.' may be missing. Not accepted:
// inf, nan, leading zeros (010), '_' or ',', what overflows a double or is not zero but underflows to it.
NumberReading<double> read_number(std::string_view text);
// As read_number where the value is an integer (1e3, 2.0; not 2.5), and 0x hexadecimal; exact, never rounded.
NumberReading<WideInteger> read_integer(std::string_view text);
// An integer number of bytes, alone or with B, KB, MB, GB, TB (1000) or KiB, MiB, GiB, TiB (1024): "8GiB",
// "1.5 GB".
NumberReading<WideInteger> read_bytes(std::string_view text);

// Shortest text that reads back to the same value; always with '.' before an exponent (1.0e-05), so that
// readers of YAML 1.1 see a number too. `single_precision`: the shortest for the float nearest to `value`.
std::string format_number(double value, bool single_precision = false);
std::string format_integer(WideInteger value);
// 8589934592 -> "8GiB"; a plain number where no 1024-unit divides it.
std::string format_bytes(WideInteger value);

// `text` for a message: control characters escaped, cut after `max_characters` with "..".
std::string printable(std::string_view text, std::size_t max_characters);

}  // namespace tandem

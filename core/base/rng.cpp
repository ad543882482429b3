// Philox4x32-10 and the keyed permutation of an epoch.
#include "core/base/rng.h"

#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/base/philox.h"

namespace tandem {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 2> key, std::array<std::uint32_t, 4> c) {
  philox4x32_words(key[0], key[1], c.data());
  return c;
}

// The four counter words are: block index, low and high sample bits mixed with the epoch's high bits, epoch.
// The purpose goes into the key, so that two purposes never share a counter space.
RandomStream::RandomStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t epoch,
                           std::uint64_t sample)
    : key_{static_cast<std::uint32_t>(seed),
           static_cast<std::uint32_t>(seed >> 32) ^ (static_cast<std::uint32_t>(purpose) * 0x9E3779B1u)},
      counter_{0, static_cast<std::uint32_t>(sample),
               static_cast<std::uint32_t>(sample >> 32) ^ (static_cast<std::uint32_t>(epoch >> 32) << 16),
               static_cast<std::uint32_t>(epoch)} {}

std::uint32_t RandomStream::bits() {
  if (used_ == 4) {
    block_ = philox4x32(key_, counter_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

double RandomStream::uniform() {
  const std::uint64_t high = bits() >> 5, low = bits() >> 6;
  return static_cast<double>(high * 67108864u + low) * 0x1p-53;
}

double RandomStream::uniform(double low, double high) { return low + (high - low) * uniform(); }

double RandomStream::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

std::int64_t RandomStream::below(std::int64_t n) {
  check_internal(n >= 1, "RandomStream::below needs n >= 1");
  const auto value = static_cast<std::int64_t>(uniform() * static_cast<double>(n));
  return value < n ? value : n - 1;
}

std::int64_t permuted_index(std::uint64_t seed, std::uint64_t epoch, std::int64_t n, std::int64_t i) {
  check_internal(i >= 0 && i < n, "permuted_index needs 0 <= i < n");
  int half_bits = 1;
  while ((std::int64_t{1} << (2 * half_bits)) < n) ++half_bits;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  auto x = static_cast<std::uint64_t>(i);
  do {  // walk the cycle until the value falls inside 0..n-1
    std::uint64_t left = x >> half_bits, right = x & mask;
    for (std::uint32_t round = 0; round < 6; ++round) {
      const auto f = philox4x32({static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
                                {static_cast<std::uint32_t>(right), round, static_cast<std::uint32_t>(epoch),
                                 static_cast<std::uint32_t>(RandomPurpose::kShuffle)});
      const std::uint64_t next = left ^ (f[0] & mask);
      left = right;
      right = next;
    }
    x = (left << half_bits) | right;
  } while (x >= static_cast<std::uint64_t>(n));
  return static_cast<std::int64_t>(x);
}

}  // namespace tandem

// Philox against the published answers, streams, and the permutation of an epoch.
#include "core/base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "core/base/error.h"

namespace tandem {
namespace {

using Block = std::array<std::uint32_t, 4>;

// Random123's known-answer file (kat_vectors), philox4x32 with 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0}, {0, 0, 0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t ones = 0xffffffffu;
  EXPECT_EQ(philox4x32({ones, ones}, {ones, ones, ones, ones}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<std::uint32_t> first_draws(std::uint64_t seed, RandomPurpose purpose, std::uint64_t epoch,
                                       std::uint64_t sample) {
  RandomStream stream(seed, purpose, epoch, sample);
  std::vector<std::uint32_t> draws(10);
  for (std::uint32_t& draw : draws) draw = stream.bits();
  return draws;
}

TEST(RandomStream, IsAFunctionOfItsKey) {
  const auto base = first_draws(1, RandomPurpose::kPatch, 2, 3);
  EXPECT_EQ(first_draws(1, RandomPurpose::kPatch, 2, 3), base);
  EXPECT_NE(first_draws(2, RandomPurpose::kPatch, 2, 3), base);
  EXPECT_NE(first_draws(1, RandomPurpose::kMirror, 2, 3), base);
  EXPECT_NE(first_draws(1, RandomPurpose::kPatch, 3, 3), base);
  EXPECT_NE(first_draws(1, RandomPurpose::kPatch, 2, 4), base);
  EXPECT_NE(first_draws(std::uint64_t{1} << 40, RandomPurpose::kPatch, 2, 3), base);
  EXPECT_NE(first_draws(1, RandomPurpose::kPatch, 2, 3 + (std::uint64_t{1} << 32)), base);
}

TEST(RandomStream, NeighboursShareNoDraw) {
  std::set<std::uint32_t> seen;
  std::size_t count = 0;
  for (std::uint64_t sample = 0; sample < 50; ++sample)
    for (const std::uint32_t draw : first_draws(7, RandomPurpose::kNoise, 0, sample)) {
      seen.insert(draw);
      ++count;
    }
  EXPECT_EQ(seen.size(), count);
}

// Mean and variance within five standard errors of n draws.
TEST(RandomStream, Moments) {
  RandomStream stream(3, RandomPurpose::kSynthetic, 0, 0);
  const int n = 200000;
  double uniform_sum = 0, normal_sum = 0, normal_squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = stream.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    uniform_sum += u;
    const double g = stream.normal();
    normal_sum += g;
    normal_squares += g * g;
  }
  EXPECT_NEAR(uniform_sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(normal_sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(normal_squares / n, 1, 5 * std::sqrt(2.0 / n));
}

TEST(RandomStream, BelowIsFairAndInside) {
  RandomStream stream(3, RandomPurpose::kSynthetic, 0, 1);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts[static_cast<std::size_t>(stream.below(7))];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 5 * 93);  // standard deviation 92.6
  EXPECT_EQ(stream.below(1), 0);
  EXPECT_THROW(stream.below(0), Error);
}

TEST(PermutedIndex, IsAPermutation) {
  for (const std::int64_t n : {1, 2, 3, 17, 64, 1000}) {
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = permuted_index(5, 1, n, i);
      ASSERT_GE(at, 0);
      ASSERT_LT(at, n);
      seen.insert(at);
    }
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), n);
  }
}

TEST(PermutedIndex, ChangesWithEpochAndSeed) {
  const auto order = [](std::uint64_t seed, std::uint64_t epoch) {
    std::vector<std::int64_t> result;
    for (std::int64_t i = 0; i < 100; ++i) result.push_back(permuted_index(seed, epoch, 100, i));
    return result;
  };
  EXPECT_EQ(order(1, 1), order(1, 1));
  EXPECT_NE(order(1, 1), order(1, 2));
  EXPECT_NE(order(1, 1), order(2, 1));
  EXPECT_THROW(permuted_index(1, 1, 10, 10), Error);
}

}  // namespace
}  // namespace tandem

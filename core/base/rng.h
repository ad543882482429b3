// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011): a draw is a pure function of
// (seed, purpose, epoch, sample, index), so workers, prefetch depth and order cannot change it.
#pragma once

#include <array>
#include <cstdint>

namespace tandem {

// What a random number is for; streams of different purposes never overlap. The values are part of the file
// format of a run (they decide the bits of a resumed run): append, never renumber.
enum class RandomPurpose : std::uint32_t {
  kWeights = 1,  // initialisation; sample = index of the parameter
  kShuffle = 2,  // order of an epoch
  kPatch = 3,    // patch position and forced foreground
  kMirror = 4,
  kNoise = 5,
  kBrightness = 6,
  kSynthetic = 7,  // generated data
  kDropout = 8,
  kSpatial = 20,  // rotation and scale of a patch
  kElastic = 21,
  kBlur = 22,
  kContrast = 23,
  kLowResolution = 24,
  kGammaInverted = 25,
  kGamma = 26,
  kGridSlack = 27,  // patches of a grid that stay without foreground
};

// One Philox4x32-10 block. Known answer: key {0,0}, counter {0,0,0,0} -> {6627e8d5, e169c58d, bc57ac4c,
// 9b00dbd8}.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 2> key,
                                        std::array<std::uint32_t, 4> counter);

// A stream of draws for one (seed, purpose, epoch, sample). Cheap to make; copy it to replay.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t epoch, std::uint64_t sample);

  // Of a stream that has drawn nothing: draw i is word i % 4 of the block of `counter` with counter[0] = i
  // / 4.
  const std::array<std::uint32_t, 2>& key() const { return key_; }
  const std::array<std::uint32_t, 4>& counter() const { return counter_; }

  std::uint32_t bits();
  double uniform();                         // [0, 1), 53 bits
  double uniform(double low, double high);  // [low, high)
  double normal();                          // mean 0, variance 1 (Box-Muller)
  std::int64_t below(std::int64_t n);       // 0 .. n-1, n >= 1

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

// Position `i` of a pseudo-random permutation of 0..n-1 keyed by (seed, epoch): a Feistel walk, O(1) memory,
// so a resumed epoch needs no replay. 0 <= i < n.
std::int64_t permuted_index(std::uint64_t seed, std::uint64_t epoch, std::int64_t n, std::int64_t i);

}  // namespace tandem

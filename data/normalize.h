// Intensity normalisation: statistics of a volume, read slice by slice, and the affine map that follows from
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/options.h"
#include "data/volume.h"

namespace tandem {

// value -> (clip(value, low, high) - shift) * factor, in double, rounded once to float.
struct ChannelScale {
  double low = 0, high = 0, shift = 0, factor = 1;

  float operator()(float value) const {
    const double v = value < low ? low : value > high ? high : static_cast<double>(value);
    return static_cast<float>((v - shift) * factor);
  }
};

// Running statistics of one channel over its clipped values. The result depends on the slices, not on how
// many are read at a time.
class ChannelStatistics {
 public:
  explicit ChannelStatistics(const NormalizeOptions& options);

  // Adds the values of slice `z` (shape y, x). Error{kData} naming `file` and the voxel at a NaN or an
  // infinity.
  void add_slice(std::span<const float> values, std::int64_t z, std::int64_t width, const std::string& file);

  // zscore: shift mean, factor 1 / standard deviation (population). minmax: to [0, 1]. ct: the option's
  // numbers (Error{kConfig} without them). percentile: percentiles 0.5 and 99.5 to 0 and 1, limited there; of
  // volumes above 2^22 voxels from every second, fourth, ... voxel. none: clip only. A constant channel under
  // zscore, minmax or percentile becomes 0.
  ChannelScale scale() const;

 private:
  NormalizeOptions options_;
  double low_, high_;  // clip
  std::int64_t count_ = 0;
  double mean_ = 0,
         squares_ = 0;  // Chan, Golub, LeVeque 1983: mean and sum of squared deviations, combined per slice
  double min_, max_;
  std::vector<float> sample_;  // kPercentile: every stride_-th value
  std::int64_t stride_ = 1, seen_ = 0;
};

// Percentile `percent` of values, linear between neighbours (numpy's default); reorders them. Not empty.
double percentile(std::span<float> values, double percent);

// The channels that are normalised by their mask.
std::vector<std::int64_t> masked_channels(const std::vector<NormalizeOptions>& list);

// The options of channel `channel`: those that name it, else a z-score.
NormalizeOptions normalize_options_of(const std::vector<NormalizeOptions>& list, std::int64_t channel);

}  // namespace tandem

// Statistics and scales of channels.
#include "data/normalize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace tandem {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMinStd = 1e-8;
constexpr double kLowPercent = 0.5, kHighPercent = 99.5;
constexpr std::size_t kMaxSample = std::size_t{1} << 22;

// Every second value: as if the stride had been twice as long from the start.
void thin(std::vector<float>& values) {
  for (std::size_t i = 0; 2 * i < values.size(); ++i) values[i] = values[2 * i];
  values.resize((values.size() + 1) / 2);
}

}  // namespace

ChannelStatistics::ChannelStatistics(const NormalizeOptions& options)
    : options_(options),
      low_(options.clip ? (*options.clip)[0] : -kInfinity),
      high_(options.clip ? (*options.clip)[1] : kInfinity),
      min_(kInfinity),
      max_(-kInfinity) {}

void ChannelStatistics::add_slice(std::span<const float> values, std::int64_t z, std::int64_t width,
                                  const std::string& file) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      const auto at = static_cast<std::int64_t>(i);
      fail(ErrorKind::kData,
           "[normalize] {}: channel {}, voxel [{}, {}, {}] (z, y, x): got {}, expected a finite number", file,
           options_.channel, z, at / width, at % width, values[i]);
    }
    const double v = std::clamp(static_cast<double>(values[i]), low_, high_);
    sum += v;
    min_ = std::min(min_, v);
    max_ = std::max(max_, v);
  }
  const auto n = static_cast<double>(values.size());
  if (values.empty()) return;
  if (options_.kind == NormalizeKind::kPercentile)
    for (const float value : values) {
      if (seen_++ % stride_ != 0) continue;
      sample_.push_back(static_cast<float>(std::clamp(static_cast<double>(value), low_, high_)));
      if (sample_.size() > kMaxSample) thin(sample_), stride_ *= 2;
    }
  const double mean = sum / n;
  double squares = 0;
  for (const float value : values) {
    const double d = std::clamp(static_cast<double>(value), low_, high_) - mean;
    squares += d * d;
  }
  const auto before = static_cast<double>(count_);
  const double delta = mean - mean_, total = before + n;
  mean_ += delta * n / total;
  squares_ += squares + delta * delta * before * n / total;
  count_ += static_cast<std::int64_t>(values.size());
}

ChannelScale ChannelStatistics::scale() const {
  ChannelScale scale{low_, high_, 0, 1};
  switch (options_.kind) {
    case NormalizeKind::kNone:
      break;
    case NormalizeKind::kCt:
      if (!options_.mean || !options_.std)
        fail(ErrorKind::kConfig,
             "[normalize] channel {}: got kind ct without mean and std, expected those of the "
             "training set",
             options_.channel);
      scale.shift = *options_.mean;
      scale.factor = 1 / *options_.std;
      break;
    case NormalizeKind::kPercentile: {
      std::vector<float> sample = sample_;
      scale.low = percentile(sample, kLowPercent);
      scale.high = percentile(sample, kHighPercent);
      scale.shift = scale.low;
      scale.factor = scale.high > scale.low ? 1 / (scale.high - scale.low) : 0;
      break;
    }
    case NormalizeKind::kMinmax:
      scale.shift = min_;
      scale.factor = max_ > min_ ? 1 / (max_ - min_) : 0;
      break;
    case NormalizeKind::kZscore:
      scale.shift = mean_;
      scale.factor =
          max_ > min_ ? 1 / std::max(std::sqrt(squares_ / static_cast<double>(count_)), kMinStd) : 0;
      break;
  }
  return scale;
}

double percentile(std::span<float> values, double percent) {
  const double at = percent / 100 * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::ptrdiff_t>(at);
  std::nth_element(values.begin(), values.begin() + low, values.end());
  const double first = static_cast<double>(values[static_cast<std::size_t>(low)]);
  const double part = at - static_cast<double>(low);
  if (part == 0) return first;
  const double second = static_cast<double>(*std::min_element(values.begin() + low + 1, values.end()));
  return first + part * (second - first);
}

std::vector<std::int64_t> masked_channels(const std::vector<NormalizeOptions>& list) {
  std::vector<std::int64_t> channels;
  for (const NormalizeOptions& options : list)
    if (options.masked) channels.push_back(options.channel);
  return channels;
}

NormalizeOptions normalize_options_of(const std::vector<NormalizeOptions>& list, std::int64_t channel) {
  for (const NormalizeOptions& options : list)
    if (options.channel == channel) return options;
  NormalizeOptions options;
  options.channel = channel;
  return options;
}

}  // namespace tandem

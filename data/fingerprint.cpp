// Sampling of foreground voxels.
#include "data/fingerprint.h"

#include <algorithm>
#include <cmath>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "data/label_map.h"
#include "data/normalize.h"
#include "data/split.h"
#include "data/voxel_source.h"

namespace tandem {
namespace {

constexpr std::size_t kMaxVoxels = 10'000'000;
constexpr std::int64_t kSlabSlices = 32;

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

// Foreground values of one case per channel.
std::vector<std::vector<float>> foreground_of(const VoxelSource& source, const LabelMap& labels) {
  const CaseInfo& info = source.info();
  const Index3& shape = info.geometry.shape();
  std::vector<std::vector<float>> found(as_size(info.channels));
  UnknownLabels unknown;
  for (std::int64_t z = 0; z < shape[0]; z += kSlabSlices) {
    const Index3 begin{z, 0, 0}, size{std::min(kSlabSlices, shape[0] - z), shape[1], shape[2]};
    const std::size_t voxels = as_size(voxel_count(size));
    std::vector<float> planes(voxels * found.size());
    std::vector<std::int32_t> values(voxels);
    std::vector<std::uint8_t> classes(voxels);
    source.read_image(begin, size, planes);
    source.read_labels(begin, size, values);
    labels.apply(values, classes, unknown);
    for (std::size_t c = 0; c < found.size(); ++c)
      for (std::size_t i = 0; i < voxels; ++i)
        if (classes[i] != 0 && classes[i] != kIgnoredClass) found[c].push_back(planes[c * voxels + i]);
  }
  return found;
}

// `count` of the values, evenly spaced: of fewer than `count` each one several times.
std::vector<float> take_evenly(const std::vector<float>& values, std::size_t count) {
  std::vector<float> taken(count);
  for (std::size_t i = 0; i < count; ++i) taken[i] = values[i * values.size() / count];
  return taken;
}

// The same number of voxels of every case, so that each has the same weight: as many as the case with the
// most has.
std::vector<float> take_equally(const std::vector<std::vector<float>>& cases) {
  std::size_t count = 0;
  for (const std::vector<float>& values : cases) count = std::max(count, values.size());
  std::vector<float> all;
  for (const std::vector<float>& values : cases) {
    if (values.empty()) continue;
    const std::vector<float> taken = take_evenly(values, count);
    all.insert(all.end(), taken.begin(), taken.end());
  }
  return all;
}

ChannelFingerprint summarise(std::vector<float>& values) {
  ChannelFingerprint result{.voxels = static_cast<std::int64_t>(values.size())};
  double sum = 0, squares = 0;
  for (const float value : values) sum += static_cast<double>(value);
  const auto n = static_cast<double>(values.size());
  result.mean = sum / n;
  for (const float value : values) {
    const double d = static_cast<double>(value) - result.mean;
    squares += d * d;
  }
  result.std = std::sqrt(squares / n);
  result.low = percentile(values, 0.5);
  result.high = percentile(values, 99.5);
  return result;
}

bool lacks_numbers(const NormalizeOptions& options) {
  return options.kind == NormalizeKind::kCt && !options.mean;
}

}  // namespace

std::vector<ChannelFingerprint> measure_fingerprint(const std::vector<CaseEntry>& cases,
                                                    const DataOptions& data,
                                                    const StopRequested& stop_requested) {
  const LabelMap labels(data);
  const std::size_t per_case = kMaxVoxels / std::max<std::size_t>(1, cases.size());
  std::vector<std::vector<std::vector<float>>> values;  // by channel and case
  for (const CaseEntry& entry : cases) {
    leave_if_stopped(stop_requested);
    const std::vector<std::vector<float>> found = foreground_of(*open_case(entry, data.orientation), labels);
    if (values.empty()) values.resize(found.size());
    if (found.size() != values.size())
      fail(ErrorKind::kData, "[data] {}: got {}, expected {} as {}", entry.file(),
           counted(found.size(), "channel"), values.size(), cases.front().file());
    for (std::size_t c = 0; c < found.size(); ++c)
      values[c].push_back(take_evenly(found[c], std::min(found[c].size(), per_case)));
  }
  std::vector<ChannelFingerprint> result;
  for (const std::vector<std::vector<float>>& channel : values) {
    std::vector<float> taken = take_equally(channel);
    if (!taken.empty()) result.push_back(summarise(taken));
  }
  if (result.empty())
    fail(ErrorKind::kData, "[data] fingerprint: got no foreground voxel in {}, expected some to normalise by",
         counted(cases.size(), "case"));
  return result;
}

namespace {

// Of folds every fold's cases for training and validation, in one order: all folds have the same numbers, so
// their models take the same inputs and can be averaged (nnU-Net's rule). Else the training cases alone.
std::vector<CaseEntry> measured_cases(const DataOptions& data) {
  if (!data.split.file && !data.split.folds) return training_cases(data);
  CaseSets sets = case_sets(data);
  std::vector<CaseEntry> cases = std::move(sets.train);
  cases.insert(cases.end(), sets.validation.begin(), sets.validation.end());
  std::ranges::sort(cases, {}, &CaseEntry::id);
  return cases;
}

}  // namespace

DataOptions with_fingerprint(const DataOptions& data, const StopRequested& stop_requested) {
  if (std::none_of(data.normalize.begin(), data.normalize.end(), &lacks_numbers)) return data;
  const std::vector<ChannelFingerprint> channels =
      measure_fingerprint(measured_cases(data), data, stop_requested);
  DataOptions result = data;
  for (NormalizeOptions& options : result.normalize) {
    if (!lacks_numbers(options) || options.channel >= static_cast<std::int64_t>(channels.size())) continue;
    const ChannelFingerprint& channel = channels[as_size(options.channel)];
    if (!(channel.std > 0))
      fail(ErrorKind::kData,
           "[data] fingerprint: channel {}: got {} in every foreground voxel, expected a spread",
           options.channel, channel.mean);
    options.mean = channel.mean;
    options.std = channel.std;
    if (!options.clip) options.clip = {{channel.low, channel.high}};
    log_info("channel {}: foreground of the training set: mean {:g}, std {:g}, limited to {:g} .. {:g}",
             options.channel, channel.mean, channel.std, (*options.clip)[0], (*options.clip)[1]);
  }
  return result;
}

}  // namespace tandem

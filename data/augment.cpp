// The changes in their order.
#include "data/augment.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include "core/base/rng.h"
#include "data/intensity.h"
#include "data/mirror.h"
#include "data/spatial.h"

namespace tandem {
namespace {

// A range that spans 1 is split there and each side drawn half the time, so that darker and brighter are
// alike.
double draw_factor(const std::array<double, 2>& range, RandomStream& stream) {
  if (range[0] >= 1 || range[1] <= 1) return stream.uniform(range[0], range[1]);
  return stream.uniform() < 0.5 ? stream.uniform(range[0], 1) : stream.uniform(1, range[1]);
}

// Adds std * N(0, 1) to each value: both numbers of each Box-Muller pair are used.
void add_noise(std::span<float> values, double std, RandomStream& stream) {
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const double radius = std * std::sqrt(-2 * std::log(1 - stream.uniform()));
    const double angle = 2 * std::numbers::pi * stream.uniform();
    values[i] += static_cast<float>(radius * std::cos(angle));
    if (i + 1 < values.size()) values[i + 1] += static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace

void mirror_patch(const PatchView& patch, int axis) {
  mirror_values(patch.image, patch.size, patch.channels, axis);
  mirror_values(patch.label, patch.size, 1, axis);
  if (!patch.weight.empty()) mirror_values(patch.weight, patch.size, 1, axis);
}

namespace {

// One change of intensities: how often it comes, how often it takes a channel then, and what it does to one.
struct Change {
  RandomPurpose purpose;
  double probability = 0, per_channel = 1;
  std::function<void(std::span<float>, RandomStream&)> apply;
};

std::vector<Change> changes_of(const AugmentOptions& o, const Index3& size) {
  constexpr double kHalf = 0.5;
  std::vector<Change> changes;
  const AugmentProbability& p = o.probability;
  const auto within = [](const std::array<double, 2>& range, RandomStream& stream) {
    return stream.uniform(range[0], range[1]);
  };
  if (o.noise_std)
    changes.push_back({RandomPurpose::kNoise, p.noise, 1, [&o, within](std::span<float> v, RandomStream& s) {
                         const auto [low, high] = *o.noise_std;
                         add_noise(v, low == high ? low : within({low, high}, s), s);
                       }});
  if (o.blur_sigma)
    changes.push_back(
        {RandomPurpose::kBlur, p.blur, kHalf, [&o, size, within](std::span<float> v, RandomStream& s) {
           blur_values(v, size, within(*o.blur_sigma, s));
         }});
  if (o.brightness)
    changes.push_back(
        {RandomPurpose::kBrightness, p.brightness, 1, [&o](std::span<float> v, RandomStream& s) {
           const auto factor = static_cast<float>(draw_factor(*o.brightness, s));
           for (float& value : v) value *= factor;
         }});
  if (o.contrast)
    changes.push_back({RandomPurpose::kContrast, p.contrast, 1, [&o](std::span<float> v, RandomStream& s) {
                         change_contrast(v, draw_factor(*o.contrast, s));
                       }});
  if (o.low_resolution)
    changes.push_back({RandomPurpose::kLowResolution, p.low_resolution, kHalf,
                       [&o, size, within](std::span<float> v, RandomStream& s) {
                         const double zoom = within(*o.low_resolution, s);
                         lower_resolution(v, size, {is_flat_patch(size) ? 1 : zoom, zoom, zoom});
                       }});
  for (const bool inverted : {true, false})
    if (o.gamma)
      changes.push_back({inverted ? RandomPurpose::kGammaInverted : RandomPurpose::kGamma,
                         inverted ? p.gamma_inverted : p.gamma, 1,
                         [&o, inverted](std::span<float> v, RandomStream& s) {
                           change_gamma(v, draw_factor(*o.gamma, s), inverted);
                         }});
  return changes;
}

// Calls apply(values [D, H, W]) for a channel of an interleaved image, in place.
void on_channel(const PatchView& patch, std::int64_t channel,
                const std::function<void(std::span<float>)>& apply) {
  if (patch.channels == 1) return apply(patch.image);
  const auto channels = static_cast<std::size_t>(patch.channels), c = static_cast<std::size_t>(channel);
  std::vector<float> plane(patch.image.size() / channels);
  for (std::size_t i = 0; i < plane.size(); ++i) plane[i] = patch.image[i * channels + c];
  apply(plane);
  for (std::size_t i = 0; i < plane.size(); ++i) patch.image[i * channels + c] = plane[i];
}

// Voxels whose value is 0 in all of `channels`; none for no channels.
std::vector<std::int64_t> outside_voxels(const PatchView& patch, std::span<const std::int64_t> channels) {
  std::vector<std::int64_t> outside;
  if (channels.empty()) return outside;
  for (std::int64_t v = 0; v < voxel_count(patch.size); ++v)
    if (std::all_of(channels.begin(), channels.end(), [&](std::int64_t c) {
          return patch.image[static_cast<std::size_t>(v * patch.channels + c)] == 0;
        }))
      outside.push_back(v);
  return outside;
}

}  // namespace

void augment_patch(const PatchView& patch, const AugmentOptions& options, const Draw& draw,
                   std::span<const std::int64_t> masked) {
  const std::vector<std::int64_t> outside = outside_voxels(patch, masked);
  const auto stream_for = [&](RandomPurpose purpose) {
    return RandomStream(draw.seed, purpose, draw.epoch, draw.sample);
  };
  for (const Change& change : changes_of(options, patch.size)) {
    RandomStream stream = stream_for(change.purpose);
    if (stream.uniform() >= change.probability) continue;
    for (std::int64_t c = 0; c < patch.channels; ++c) {
      if (change.per_channel < 1 && stream.uniform() >= change.per_channel) continue;
      on_channel(patch, c, [&](std::span<float> values) { change.apply(values, stream); });
    }
  }
  for (const std::int64_t voxel : outside)
    for (const std::int64_t c : masked) patch.image[static_cast<std::size_t>(voxel * patch.channels + c)] = 0;
  RandomStream mirror = stream_for(RandomPurpose::kMirror);
  for (const int axis : axes_of(options.mirror))
    if (mirror.uniform() < options.probability.mirror) mirror_patch(patch, axis);
}

}  // namespace tandem

// Mirror, noise, brightness.
#include "data/augment.h"

#include <cmath>
#include <numbers>

#include "core/base/rng.h"
#include "data/mirror.h"

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
}

void augment_patch(const PatchView& patch, const AugmentOptions& options, const Draw& draw) {
  const auto stream_for = [&](RandomPurpose purpose) {
    return RandomStream(draw.seed, purpose, draw.epoch, draw.sample);
  };
  RandomStream mirror = stream_for(RandomPurpose::kMirror);
  for (const int axis : axes_of(options.mirror))
    if (mirror.uniform() < options.probability.mirror) mirror_patch(patch, axis);
  RandomStream noise = stream_for(RandomPurpose::kNoise);
  if (options.noise_std > 0 && noise.uniform() < options.probability.noise)
    add_noise(patch.image, options.noise_std, noise);
  RandomStream brightness = stream_for(RandomPurpose::kBrightness);
  if (!options.brightness || brightness.uniform() >= options.probability.brightness) return;
  for (std::int64_t c = 0; c < patch.channels; ++c) {
    const auto factor = static_cast<float>(draw_factor(*options.brightness, brightness));
    for (std::size_t i = static_cast<std::size_t>(c); i < patch.image.size();
         i += static_cast<std::size_t>(patch.channels))
      patch.image[i] *= factor;
  }
}

}  // namespace tandem

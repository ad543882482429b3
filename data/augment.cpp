// Mirror, noise, brightness.
#include "data/augment.h"

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
    for (float& value : patch.image) value += static_cast<float>(options.noise_std * noise.normal());
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

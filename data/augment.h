// Random changes of one training patch. Each kind of change has its own stream of random numbers, so that
// switching one on or off leaves the draws of the others as they were.
#pragma once

#include <span>

#include "data/dataset.h"
#include "data/options.h"

namespace tandem {

// A patch in place: image [D, H, W, C], label [D, H, W].
struct PatchView {
  Index3 size{};
  std::int64_t channels = 1;
  std::span<float> image;
  std::span<std::int32_t> label;
};

// Reverses array axis 0 (z), 1 (y) or 2 (x) of image and label.
void mirror_patch(const PatchView& patch, int axis);

// In this order: mirror each axis of options.mirror with its probability; add noise of options.noise_std;
// multiply each channel by a factor of options.brightness (a range that spans 1 gives half its draws to each
// side of 1).
void augment_patch(const PatchView& patch, const AugmentOptions& options, const Draw& draw);

}  // namespace tandem

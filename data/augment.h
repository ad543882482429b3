// Random changes of one training patch. Each kind of change has its own stream of random numbers, so that
// switching one on or off leaves the draws of the others as they were.
#pragma once

#include <span>

#include "data/dataset.h"
#include "data/options.h"

namespace tandem {

// A patch in place: image [D, H, W, C], label and weight [D, H, W]; the weight may be empty.
struct PatchView {
  Index3 size{};
  std::int64_t channels = 1;
  std::span<float> image;
  std::span<std::int32_t> label;
  std::span<float> weight = {};
};

// Reverses array axis 0 (z), 1 (y) or 2 (x) of image, label and weight.
void mirror_patch(const PatchView& patch, int axis);

// In this order (nnU-Net's), each with its probability and to each channel apart: noise of a deviation in
// options.noise_std, blur, brightness factor, contrast, low resolution, gamma of the negative image, gamma;
// then mirroring of each axis of options.mirror. Blur and low resolution take each channel half of the time.
// A range of brightness, contrast or gamma that spans 1 gives half its draws to each side of 1. Low
// resolution leaves z of flat patches alone. Rotation, scale and elastic shifts come before: data/spatial.
// Voxels that are 0 in all channels of `masked` (channels normalised by their mask: 0 is outside) are 0 there
// afterwards too.
void augment_patch(const PatchView& patch, const AugmentOptions& options, const Draw& draw,
                   std::span<const std::int64_t> masked = {});

}  // namespace tandem

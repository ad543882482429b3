// Changes of the intensities of one channel of a patch: blur, contrast, low resolution, gamma. FP32 loops
// over rows; what is drawn, and in which order the changes come, is data/augment.
#pragma once

#include <array>
#include <span>

#include "data/volume.h"

namespace tandem {

// All take values [D, H, W] in place.

// Gaussian of `sigma` voxels along each axis, cut at round(4 sigma), mirrored at the edges (scipy's
// gaussian_filter).
void blur_values(std::span<float> values, const Index3& size, double sigma);

// (x - mean) * factor + mean, limited to the old range.
void change_contrast(std::span<float> values, double factor);

// Shrunk to round(zoom * size) voxels of each axis by the nearest one (floor((i + 0.5) * size / small)) and
// enlarged again linearly. zoom z, y, x: an axis of zoom 1 stays as it is.
void lower_resolution(std::span<float> values, const Index3& size, const std::array<double, 3>& zoom);

// x -> ((x - min) / range)^gamma * range + min, then shifted and scaled to the old mean and standard
// deviation; of -x and back with `inverted`. A constant stays as it is.
void change_gamma(std::span<float> values, double gamma, bool inverted);

}  // namespace tandem

// Prediction of a whole volume from overlapping patches: where the windows lie, how they are weighted, and
// the sums of logits. The network is a callback, the volume a reader of boxes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/tensor/tensor.h"
#include "data/options.h"
#include "data/volume.h"

namespace tandem {

// First voxels of the windows along an axis: n = ceil((size - patch) / (patch * (1 - overlap))) + 1 of them,
// at round(i * (size - patch) / (n - 1)), ties to even (nnU-Net's steps). {0} where the volume is not larger.
std::vector<std::int64_t> window_starts(std::int64_t size, std::int64_t patch, double overlap);

// Weight of each voxel of a window, [D, H, W], largest 1. kGaussian: product over the axes of
// exp(-(i - t / 2)^2 / (2 (t / 8)^2)) with t / 2 rounded down (nnU-Net: scipy's filter, cut at 4 sigma, zeros
// replaced by the smallest weight). kConstant: 1.
std::vector<float> window_weights(const Index3& patch, BlendKind blend);

struct WindowOptions {
  Index3 patch{};
  double overlap = 0.5;
  BlendKind blend = BlendKind::kGaussian;
  std::vector<int> mirror_axes;  // logits are averaged over all subsets of these axes mirrored; empty: none
  std::int64_t batch_size = 1;   // windows at once
};

// Fills values [D, H, W, C] of the box, with 0 beyond the volume (PreparedCase::read_box).
using BoxReader = std::function<void(const Index3& begin, const Index3& size, std::span<float> values)>;
// image F32 [N, C, patch] -> logits [N, K, patch] of any float dtype, on the CPU.
using PatchModel = std::function<Tensor(const Tensor& image)>;

// Logits of a volume: values [Z, Y, X, K].
struct LogitVolume {
  Index3 shape{};
  std::int64_t classes = 0;
  std::vector<float> values;

  // The class of each voxel with the largest logit (the lowest of equal ones), [Z, Y, X]. Error{kNumeric} if
  // one is NaN.
  std::vector<std::int32_t> labels() const;
};

// Weighted mean of the windows' logits in FP32, weights divided out once at the end. A volume smaller than
// the patch is centred in zeros and cut back. Error{kShape} if the model's output does not fit its input.
LogitVolume sliding_window(const Index3& shape, std::int64_t channels, const BoxReader& read,
                           const WindowOptions& options, const PatchModel& model);

}  // namespace tandem

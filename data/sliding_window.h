// Prediction of a whole volume from overlapping patches: where the windows lie, how they are weighted, and
// the run over all of them. The network is a callback, the volume a reader of boxes, the result goes out line
// by line; the sums in between are data/line_sums.
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

// The windows of a volume in the order of prediction: x fastest, then y, then z. A volume smaller than the
// patch along an axis has one window there, which begins before it: the volume is centred in it.
struct WindowPlan {
  Index3 shape{}, patch{};
  std::array<std::vector<std::int64_t>, 3> starts;
  std::int64_t batch_size = 1;
  bool by_slice = false;  // lines wait until their slice z is finished, and go out in order of z

  std::int64_t count() const;
  Index3 begin_of(std::int64_t window) const;
};
WindowPlan plan_windows(const Index3& shape, const WindowOptions& options);

// Fills values [D, H, W, C] of the box, with 0 beyond the volume (PreparedCase::read_box).
using BoxReader = std::function<void(const Index3& begin, const Index3& size, std::span<float> values)>;
// image F32 [N, C, patch] -> logits [N, K, patch] of any float dtype, on the CPU.
using PatchModel = std::function<Tensor(const Tensor& image)>;
// Takes the finished logits [X, models * K] of the line of voxels (z, y): weighted mean over the windows and
// mirrored copies, model by model. Called once per line, from several threads.
using LineSink = std::function<void(std::int64_t z, std::int64_t y, std::span<const float> logits)>;
// Called after the last line of slice z, slices in order, by the thread that runs the prediction.
using SliceSink = std::function<void(std::int64_t z)>;

// The volume, and how many classes each model answers with.
struct WindowSource {
  Index3 shape{};
  std::int64_t channels = 1, classes = 1;
  BoxReader read;
};

// Bytes of the sums that a prediction holds at its widest (exact, as the allocator counts them in
// MemoryCategory::kWorkspace): logits and weights of the lines that are begun and not finished, and the
// weights of a window. A volume of any depth needs the lines of about one window, not all of them; by slices
// it needs all slices of one row of windows.
std::int64_t window_sum_bytes(const WindowPlan& plan, std::int64_t classes, std::int64_t models);

// Runs every model over every window. Sums are FP32, weights divided out once at the end. Error{kShape} if a
// model's output does not fit its input. With `after_slice` lines go out by slices (WindowPlan::by_slice).
void sliding_window(const WindowSource& source, const WindowOptions& options,
                    std::span<const PatchModel> models, const LineSink& sink,
                    const SliceSink& after_slice = {});

}  // namespace tandem

// From a prepared case to labels and probabilities. Windows and sums are data/sliding_window; clean-up of
// labels data/connected_components, files data/prediction_file.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/prepared_case.h"
#include "data/sliding_window.h"

namespace tandem {

// The window of `tandem predict` and of validation: the training patch, mirrored along the axes of
// mirror_tta, or those of augment.mirror.
WindowOptions window_options(const PredictOptions& predict, const PatchOptions& patch,
                             const AugmentOptions& augment);
WindowOptions window_options(const ValidateOptions& validate, const PatchOptions& patch,
                             const AugmentOptions& augment);

// The case of `source`, in memory where data.cache and data.cache_bytes allow it: its windows overlap.
PreparedCase prepare_whole_case(std::unique_ptr<VoxelSource> source, const DataOptions& data);

struct CasePrediction {
  std::vector<std::int32_t> labels;     // class of the largest score, the lowest of equal ones; [Z, Y, X]
  std::optional<Volume> probabilities;  // [K, Z, Y, X]; K regions with data.regions
};

struct PredictionRequest {
  std::int64_t classes = 1;
  bool probabilities = false;
  // With data.regions: the class of each output. Then the outputs are independent (sigmoid), and a voxel has
  // the class of the last region whose mean probability is above one half (nnU-Net's decoding), class 0 where
  // there is none.
  std::vector<std::int32_t> region_classes = {};
};
PredictionRequest prediction_request(const LabelMap& labels);

// Runs the models over the whole case; the result lies on the grid of its source (info().geometry), to which
// logits of a resampled case go back linearly, as nnU-Net resamples probabilities. One model: the class of
// the largest logit; several, or probabilities asked for: softmax of each model's logits, and their mean.
// Regions: sigmoid of each model's logits, and their mean.
// Error{kNumeric} if a logit is NaN.
CasePrediction predict_case(const PreparedCase& source, const WindowOptions& options,
                            std::span<const PatchModel> models, const PredictionRequest& request);

// Bytes that predict_case holds at its widest beside the models and the case: sums of unfinished lines and,
// where the case is cut or resampled, the slices that lie between its two grids; and the result.
struct PredictionBytes {
  std::int64_t sums = 0;    // exact, as the allocator counts them in MemoryCategory::kWorkspace
  std::int64_t result = 0;  // labels and probabilities
  std::int64_t total() const { return sums + result; }
};
PredictionBytes prediction_bytes(const GridPlacement& placement, const WindowOptions& options,
                                 std::int64_t models, const PredictionRequest& request);

// Class indices (or kIgnoredLabel) of the whole case on that grid, [Z, Y, X]; Error{kData} if it has no
// labels.
std::vector<std::int32_t> reference_labels(const PreparedCase& source);

}  // namespace tandem

// From a prepared case to labels and to the file of a prediction.
#pragma once

#include <filesystem>
#include <vector>

#include "data/prepared_case.h"
#include "data/sliding_window.h"

namespace tandem {

// The window of `tandem predict` and of validation: the training patch, mirrored along augment.mirror where
// asked for.
WindowOptions window_options(const PredictOptions& predict, const PatchOptions& patch,
                             const AugmentOptions& augment);
WindowOptions window_options(const ValidateOptions& validate, const PatchOptions& patch,
                             const AugmentOptions& augment);

// The case of `source`, in memory where data.cache and data.cache_bytes allow it: its windows overlap.
PreparedCase prepare_whole_case(std::unique_ptr<VoxelSource> source, const DataOptions& data);

// Logits of the whole case.
LogitVolume predict_case(const PreparedCase& source, const WindowOptions& options, const PatchModel& model);

// Class indices of the whole case, [Z, Y, X]; Error{kData} if it has no labels.
std::vector<std::int32_t> reference_labels(const PreparedCase& source);

// Writes `classes` (one index per voxel of the case) to a NIfTI file on the grid of the file the case came
// from, with its affine, codes and units; voxels outside the case (a region was cut) are background. Values:
// output_values of the label map.
void write_prediction(const std::filesystem::path& path, const CaseInfo& info,
                      const std::vector<std::int32_t>& classes, const LabelMap& labels);

}  // namespace tandem

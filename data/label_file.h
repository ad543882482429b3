// Label maps as files, for scoring predictions without their model: one map per case, matched by name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/segmentation_metrics.h"
#include "data/volume.h"

namespace tandem {

// A label map on the grid of its file.
struct LabelFile {
  std::string file;
  Geometry geometry;
  std::vector<std::int32_t> values;  // [Z, Y, X]
};
// .nii, .nii.gz; .h5, .hdf, .hdf5, .hd5: /predictions, or /label where there is none, with `affine`
// or `spacing` of that dataset or of /raw. Error{kData} naming file and object.
LabelFile read_label_file(const std::filesystem::path& path);

// Files of the same case in two folders. A case is a file's name up to its first dot.
struct LabelFilePair {
  std::string id;
  std::filesystem::path prediction, reference;
};
// One pair per file of `references`, sorted; predictions without a reference are left out. Error{kData}
// naming the cases without a prediction, or a case that has two files.
std::vector<LabelFilePair> match_label_files(const std::filesystem::path& predictions,
                                             const std::filesystem::path& references);

// Scores the pairs. With `classes` (a job's data.labels) the references hold their values and the predictions
// what `tandem predict` writes; without, every value is a class by itself, 0 the background, and means the
// same in both. Error{kData} for two grids that differ (size, or affine by more than 1e-3 mm), for values
// that no class has, and for more than 256 of them. `should_stop` is asked before each pair: Error{kStopped}.
SegmentationScores score_label_files(const std::vector<LabelFilePair>& pairs,
                                     const std::vector<LabelClass>& classes, OtherLabels other,
                                     const MetricOptions& options,
                                     const std::function<bool()>& should_stop = {});

}  // namespace tandem

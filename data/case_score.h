// Measures one case: a predicted label map against the reference, class by class or region by region. Names,
// means and files are elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/segmentation_metrics.h"
#include "data/volume.h"

namespace tandem {

// What is scored as one: a class, or a region of several (nnU-Net's regions, such as the whole tumour).
struct ScoredRegion {
  std::string name;
  std::vector<std::int32_t> classes;
};
// Each class by itself, under its name.
std::vector<ScoredRegion> regions_of_classes(const std::vector<std::string>& names);

// Class indices [Z, Y, X], 0 to classes - 1. A negative index in `reference` is a voxel that nobody labelled:
// it is left out of the counts and belongs to no mask.
struct LabelPair {
  Index3 shape{};
  std::array<double, 3> spacing_mm{1, 1, 1};
  std::int64_t classes = 0;
  std::span<const std::int32_t> prediction, reference;
};

// Voxels by predicted and reference class, exact: counts()[p * classes + r].
class ConfusionCounts {
 public:
  explicit ConfusionCounts(const LabelPair& labels);
  OverlapCounts of(const std::vector<std::int32_t>& classes) const;
  std::int64_t classes() const { return classes_; }
  // `cleaned` counts a prediction some of whose voxels became background: these counts where only those of
  // `cls` did.
  void remove_as(const ConfusionCounts& cleaned, std::int32_t cls);

 private:
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;
};

// One score per region; the first is the background: counts only. Metrics from surfaces only where
// options.metrics names one. Where one mask is empty and the policy scores it, distances are the diagonal of
// the image in mm (size times spacing) and nsd is 0.
std::vector<ClassScore> score_case(const LabelPair& labels, const std::vector<ScoredRegion>& regions,
                                   const MetricOptions& options);

}  // namespace tandem

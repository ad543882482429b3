// Counts of a case, and distances within the box that holds both masks.
#include "data/case_score.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "data/surface_distance.h"

namespace tandem {
namespace {

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

struct Box {
  Index3 begin{}, end{};
  bool empty() const { return end[0] == 0; }
  Index3 size() const { return {end[0] - begin[0], end[1] - begin[1], end[2] - begin[2]}; }
};

void include(Box& box, const Index3& first, const Index3& last) {
  const bool fresh = box.empty();
  for (std::size_t a = 0; a < 3; ++a) {
    box.begin[a] = fresh ? first[a] : std::min(box.begin[a], first[a]);
    box.end[a] = std::max(box.end[a], last[a] + 1);
  }
}

// For each class the box of its voxels in either map.
std::vector<Box> boxes_of_classes(const LabelPair& labels) {
  std::vector<Box> boxes(as_size(labels.classes));
  std::size_t i = 0;
  for (std::int64_t z = 0; z < labels.shape[0]; ++z)
    for (std::int64_t y = 0; y < labels.shape[1]; ++y)
      for (std::int64_t x = 0; x < labels.shape[2]; ++x, ++i) {
        if (labels.reference[i] < 0) continue;
        const Index3 at{z, y, x};
        include(boxes[as_size(labels.reference[i])], at, at);
        if (labels.prediction[i] != labels.reference[i])
          include(boxes[as_size(labels.prediction[i])], at, at);
      }
  return boxes;
}

// The voxels of the box whose index in `values` is one of the region's and whose reference is known.
std::vector<std::uint8_t> mask_in_box(const LabelPair& labels, std::span<const std::int32_t> values,
                                      const std::vector<std::uint8_t>& is_member, const Box& box) {
  std::vector<std::uint8_t> mask;
  mask.reserve(as_size(voxel_count(box.size())));
  for (std::int64_t z = box.begin[0]; z < box.end[0]; ++z)
    for (std::int64_t y = box.begin[1]; y < box.end[1]; ++y) {
      const std::int64_t row = (z * labels.shape[1] + y) * labels.shape[2];
      for (std::int64_t i = row + box.begin[2]; i < row + box.end[2]; ++i)
        mask.push_back(labels.reference[as_size(i)] >= 0 && is_member[as_size(values[as_size(i)])] != 0);
    }
  return mask;
}

SurfaceDistances distances_of(const LabelPair& labels, const ScoredRegion& region,
                              const std::vector<Box>& boxes) {
  Box box;
  std::vector<std::uint8_t> is_member(as_size(labels.classes), 0);
  for (const std::int32_t cls : region.classes) {
    const Box& one = boxes[as_size(cls)];
    is_member[as_size(cls)] = 1;
    if (!one.empty()) include(box, one.begin, {one.end[0] - 1, one.end[1] - 1, one.end[2] - 1});
  }
  return surface_distances(mask_in_box(labels, labels.prediction, is_member, box),
                           mask_in_box(labels, labels.reference, is_member, box), box.size(),
                           labels.spacing_mm);
}

double diagonal_mm(const LabelPair& labels) {
  return std::hypot(static_cast<double>(labels.shape[0]) * labels.spacing_mm[0],
                    static_cast<double>(labels.shape[1]) * labels.spacing_mm[1],
                    static_cast<double>(labels.shape[2]) * labels.spacing_mm[2]);
}

void fill_surface_metrics(ClassScore& score, const SurfaceDistances& distances, double nsd_mm) {
  score.hd = distances.hausdorff_mm();
  score.hd95 = distances.hausdorff_percentile_mm(95);
  score.hd95_pooled = distances.pooled_percentile_mm(95);
  score.assd = distances.average_mm();
  score.nsd = distances.surface_dice(nsd_mm);
}

}  // namespace

std::vector<ScoredRegion> regions_of_classes(const std::vector<std::string>& names) {
  std::vector<ScoredRegion> regions;
  for (const std::string& name : names)
    regions.push_back({name, {static_cast<std::int32_t>(regions.size())}});
  return regions;
}

ConfusionCounts::ConfusionCounts(const LabelPair& labels)
    : classes_(labels.classes), counts_(as_size(labels.classes * labels.classes), 0) {
  const auto voxels = as_size(voxel_count(labels.shape));
  check_internal(labels.prediction.size() == voxels && labels.reference.size() == voxels,
                 "score_case: prediction or reference of another size");
  for (std::size_t i = 0; i < voxels; ++i) {
    const std::int32_t p = labels.prediction[i], r = labels.reference[i];
    check_internal(p >= 0 && p < classes_ && r < classes_, "score_case: a class index out of range");
    if (r >= 0) ++counts_[as_size(p * classes_ + r)];
  }
}

OverlapCounts ConfusionCounts::of(const std::vector<std::int32_t>& classes) const {
  std::int64_t both = 0, predicted = 0, expected = 0;
  for (const std::int32_t c : classes) {
    for (std::int64_t other = 0; other < classes_; ++other) {
      predicted += counts_[as_size(c * classes_ + other)];
      expected += counts_[as_size(other * classes_ + c)];
    }
    for (const std::int32_t other : classes) both += counts_[as_size(c * classes_ + other)];
  }
  return {.true_positive = both, .false_positive = predicted - both, .false_negative = expected - both};
}

void ConfusionCounts::remove_as(const ConfusionCounts& cleaned, std::int32_t cls) {
  for (std::int64_t r = 0; r < classes_; ++r) {
    const std::size_t at = as_size(cls * classes_ + r);
    counts_[as_size(r)] += counts_[at] - cleaned.counts_[at];
    counts_[at] = cleaned.counts_[at];
  }
}

std::vector<ClassScore> score_case(const LabelPair& labels, const std::vector<ScoredRegion>& regions,
                                   const MetricOptions& options) {
  const ConfusionCounts confusion(labels);
  const std::vector<MetricRow> rows = chosen_metrics(options.metrics);
  const bool surfaces =
      std::any_of(rows.begin(), rows.end(), [](const MetricRow& row) { return !row.is_overlap; });
  std::vector<Box> boxes;
  if (surfaces) boxes = boxes_of_classes(labels);
  std::vector<ClassScore> scores;
  for (const ScoredRegion& region : regions) {
    ClassScore& score = scores.emplace_back(score_class(confusion.of(region.classes), options.empty));
    if (!surfaces || !score.scored() || &region == &regions.front()) continue;
    if (score.false_positive_case || score.missed_case) {
      score.hd = score.hd95 = score.hd95_pooled = score.assd = diagonal_mm(labels);
      score.nsd = 0;
    } else {
      fill_surface_metrics(score, distances_of(labels, region, boxes), options.nsd_mm);
    }
  }
  return scores;
}

}  // namespace tandem

// Scores of segmentations: the metrics and their table, one class in one case, means over cases, and what an
// empty mask scores. How a case is measured is data/case_score.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/options.h"
#include "data/volume.h"

namespace tandem {

inline constexpr double kNotScored = std::numeric_limits<double>::quiet_NaN();

// Voxels of one class: predicted and in the reference, only predicted, only in the reference.
struct OverlapCounts {
  std::int64_t true_positive = 0, false_positive = 0, false_negative = 0;
  friend bool operator==(const OverlapCounts&, const OverlapCounts&) = default;
};

// dice = 2 TP / (2 TP + FP + FN), iou = TP / (TP + FP + FN); the others are data/surface_distance's. NaN:
// not scored or not asked for.
struct MetricValues {
  double dice = kNotScored, iou = kNotScored;
  double hd = kNotScored, hd95 = kNotScored, hd95_pooled = kNotScored, assd = kNotScored;  // mm
  double nsd = kNotScored;
};

// One row per metric: its name in validate.metrics and in every file, and where its value is.
struct MetricRow {
  std::string_view name;
  double MetricValues::*value;
  std::string_view unit;  // "mm", or "" for a share
  bool is_overlap;        // from counts alone; else from surfaces
};
std::span<const MetricRow> metric_table();
// The rows that validate.metrics names, in the table's order; dice and iou always.
std::vector<MetricRow> chosen_metrics(const std::vector<std::string>& names);

struct MetricOptions {
  std::vector<std::string> metrics;
  double nsd_mm = 1;  // tolerance of nsd
  EmptyPolicy empty = EmptyPolicy::kWorst;
};
MetricOptions metric_options(const ValidateOptions& validate);

// One class in one case.
struct ClassScore : MetricValues {
  OverlapCounts counts;
  bool absent = false;               // neither predicted nor in the reference: not scored
  bool false_positive_case = false;  // predicted, not in the reference: worst, or not scored (kSkip)
  bool missed_case = false;          // in the reference, not predicted: worst

  bool scored() const { return dice == dice; }
  // "scored", "absent", "false_positive_case" or "missed_case".
  std::string_view status() const;
};
// Flags, dice and iou. The worst value of dice and iou is 0.
ClassScore score_class(const OverlapCounts& counts, EmptyPolicy policy);

// One class over all cases: means over the scored ones, NaN if there are none.
struct ClassSummary : MetricValues {
  std::int64_t scored = 0;  // n of the means
  std::int64_t absent = 0, false_positive_cases = 0, missed_cases = 0;
};

class SegmentationScores {
 public:
  // `names` of the classes or regions; the first is background and not in the means.
  SegmentationScores(std::vector<std::string> names, MetricOptions options);

  struct Case {
    std::string id, file;
    Index3 shape{};
    std::array<double, 3> spacing_mm{1, 1, 1};
    std::vector<ClassScore> scores;  // per class
  };
  void add_case(Case one);

  const std::vector<std::string>& names() const { return names_; }
  const MetricOptions& options() const { return options_; }
  const std::vector<Case>& cases() const { return cases_; }
  ClassSummary summary(std::int64_t cls) const;
  // Mean of the class means over the foreground classes that were scored at least once; NaN if none was.
  double mean(double MetricValues::*metric) const;
  double mean_dice() const { return mean(&MetricValues::dice); }

 private:
  std::vector<std::string> names_;
  MetricOptions options_;
  std::vector<Case> cases_;
};

}  // namespace tandem

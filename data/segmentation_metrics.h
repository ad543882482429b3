// Dice and IoU per class and case from whole-number counts, and what to do with empty masks. Distances are
// not here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/options.h"

namespace tandem {

// Voxels of one class: predicted and in the reference, only predicted, only in the reference.
struct OverlapCounts {
  std::int64_t true_positive = 0, false_positive = 0, false_negative = 0;
  friend bool operator==(const OverlapCounts&, const OverlapCounts&) = default;
};

// Counts of classes 0 .. classes-1; both lists hold class indices in that range, of one length. Adds to
// `counts` (resized to `classes` if empty).
void count_overlap(std::span<const std::int32_t> prediction, std::span<const std::int32_t> reference,
                   std::int64_t classes, std::vector<OverlapCounts>& counts);

// One class in one case. dice = 2 TP / (2 TP + FP + FN), iou = TP / (TP + FP + FN); NaN where it is not
// scored.
struct ClassScore {
  double dice = 0, iou = 0;
  bool absent = false;               // neither predicted nor in the reference: not scored
  bool false_positive_case = false;  // predicted, not in the reference: 0, or not scored (EmptyPolicy::kSkip)
  bool missed_case = false;          // in the reference, not predicted: 0
};
ClassScore score_class(const OverlapCounts& counts, EmptyPolicy policy);

// One class over all cases.
struct ClassSummary {
  double dice = 0, iou = 0;  // means over the scored cases; NaN if there are none
  std::int64_t scored = 0;   // n of the means
  std::int64_t absent = 0, false_positive_cases = 0, missed_cases = 0;
};

class SegmentationScores {
 public:
  // `names` of the classes; class 0 is background and not in the means.
  SegmentationScores(std::vector<std::string> names, EmptyPolicy policy);

  struct Case {
    std::string id;
    std::vector<ClassScore> scores;  // per class
  };
  void add_case(const std::string& id, const std::vector<OverlapCounts>& counts);

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<Case>& cases() const { return cases_; }
  ClassSummary summary(std::int64_t cls) const;
  // Mean of the class means over the foreground classes that were scored at least once; NaN if none was.
  double mean_dice() const;
  double mean_iou() const;

 private:
  double mean_of(double ClassSummary::*value) const;

  std::vector<std::string> names_;
  EmptyPolicy policy_;
  std::vector<Case> cases_;
};

}  // namespace tandem

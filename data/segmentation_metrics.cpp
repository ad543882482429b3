// Counting and scoring.
#include "data/segmentation_metrics.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace tandem {
namespace {

constexpr double kNotScored = std::numeric_limits<double>::quiet_NaN();

double ratio(double sum, std::int64_t n) { return n > 0 ? sum / static_cast<double>(n) : kNotScored; }

}  // namespace

void count_overlap(std::span<const std::int32_t> prediction, std::span<const std::int32_t> reference,
                   std::int64_t classes, std::vector<OverlapCounts>& counts) {
  check_internal(prediction.size() == reference.size(),
                 "count_overlap: prediction and reference have different sizes");
  if (counts.empty()) counts.resize(static_cast<std::size_t>(classes));
  for (std::size_t i = 0; i < prediction.size(); ++i) {
    const auto p = static_cast<std::size_t>(prediction[i]), r = static_cast<std::size_t>(reference[i]);
    check_internal(p < counts.size() && r < counts.size(), "count_overlap: a class index out of range");
    if (p == r) {
      ++counts[p].true_positive;
    } else {
      ++counts[p].false_positive;
      ++counts[r].false_negative;
    }
  }
}

ClassScore score_class(const OverlapCounts& counts, EmptyPolicy policy) {
  const std::int64_t reference = counts.true_positive + counts.false_negative;
  const std::int64_t predicted = counts.true_positive + counts.false_positive;
  ClassScore score;
  score.absent = reference == 0 && predicted == 0;
  score.false_positive_case = reference == 0 && predicted > 0;
  score.missed_case = reference > 0 && predicted == 0;
  if (score.absent || (score.false_positive_case && policy == EmptyPolicy::kSkip)) {
    score.dice = score.iou = kNotScored;
    return score;
  }
  const auto hit = static_cast<double>(counts.true_positive);
  score.dice = 2 * hit / static_cast<double>(reference + predicted);
  score.iou = hit / static_cast<double>(reference + predicted - counts.true_positive);
  return score;
}

SegmentationScores::SegmentationScores(std::vector<std::string> names, EmptyPolicy policy)
    : names_(std::move(names)), policy_(policy) {}

void SegmentationScores::add_case(const std::string& id, const std::vector<OverlapCounts>& counts) {
  check_internal(counts.size() == names_.size(), "add_case: counts of another number of classes");
  Case result{id, {}};
  for (const OverlapCounts& one : counts) result.scores.push_back(score_class(one, policy_));
  cases_.push_back(std::move(result));
}

ClassSummary SegmentationScores::summary(std::int64_t cls) const {
  ClassSummary summary;
  double dice = 0, iou = 0;
  for (const Case& one : cases_) {
    const ClassScore& score = one.scores[static_cast<std::size_t>(cls)];
    summary.absent += score.absent;
    summary.false_positive_cases += score.false_positive_case;
    summary.missed_cases += score.missed_case;
    if (std::isnan(score.dice)) continue;
    ++summary.scored;
    dice += score.dice;
    iou += score.iou;
  }
  summary.dice = ratio(dice, summary.scored);
  summary.iou = ratio(iou, summary.scored);
  return summary;
}

double SegmentationScores::mean_of(double ClassSummary::*value) const {
  double sum = 0;
  std::int64_t n = 0;
  for (std::size_t c = 1; c < names_.size(); ++c) {
    const ClassSummary one = summary(static_cast<std::int64_t>(c));
    if (one.scored == 0) continue;
    sum += one.*value;
    ++n;
  }
  return ratio(sum, n);
}

double SegmentationScores::mean_dice() const { return mean_of(&ClassSummary::dice); }
double SegmentationScores::mean_iou() const { return mean_of(&ClassSummary::iou); }

}  // namespace tandem

// The table of metrics, and means.
#include "data/segmentation_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.h"

namespace tandem {
namespace {

constexpr auto kMetrics = std::to_array<MetricRow>({
    {"dice", &MetricValues::dice, "", true},
    {"iou", &MetricValues::iou, "", true},
    {"hd", &MetricValues::hd, "mm", false},
    {"hd95", &MetricValues::hd95, "mm", false},
    {"hd95_pooled", &MetricValues::hd95_pooled, "mm", false},
    {"assd", &MetricValues::assd, "mm", false},
    {"nsd", &MetricValues::nsd, "", false},
});

double ratio(double sum, std::int64_t n) { return n > 0 ? sum / static_cast<double>(n) : kNotScored; }

}  // namespace

std::span<const MetricRow> metric_table() { return kMetrics; }

std::vector<MetricRow> chosen_metrics(const std::vector<std::string>& names) {
  std::vector<MetricRow> rows;
  for (const MetricRow& row : kMetrics)
    if (row.is_overlap || std::find(names.begin(), names.end(), row.name) != names.end()) rows.push_back(row);
  return rows;
}

MetricOptions metric_options(const ValidateOptions& validate) {
  return {.metrics = validate.metrics, .nsd_mm = validate.nsd_mm, .empty = validate.empty};
}

std::string_view ClassScore::status() const {
  if (absent) return "absent";
  if (false_positive_case) return "false_positive_case";
  return missed_case ? "missed_case" : "scored";
}

ClassScore score_class(const OverlapCounts& counts, EmptyPolicy policy) {
  const std::int64_t reference = counts.true_positive + counts.false_negative;
  const std::int64_t predicted = counts.true_positive + counts.false_positive;
  ClassScore score;
  score.counts = counts;
  score.absent = reference == 0 && predicted == 0;
  score.false_positive_case = reference == 0 && predicted > 0;
  score.missed_case = reference > 0 && predicted == 0;
  if (score.absent || (score.false_positive_case && policy == EmptyPolicy::kSkip)) return score;
  const auto hit = static_cast<double>(counts.true_positive);
  score.dice = 2 * hit / static_cast<double>(reference + predicted);
  score.iou = hit / static_cast<double>(reference + predicted - counts.true_positive);
  return score;
}

SegmentationScores::SegmentationScores(std::vector<std::string> names, MetricOptions options)
    : names_(std::move(names)), options_(std::move(options)) {}

void SegmentationScores::add_case(Case one) {
  check_internal(one.scores.size() == names_.size(), "add_case: scores of another number of classes");
  cases_.push_back(std::move(one));
}

ClassSummary SegmentationScores::summary(std::int64_t cls) const {
  ClassSummary summary;
  for (const Case& one : cases_) {
    const ClassScore& score = one.scores[static_cast<std::size_t>(cls)];
    summary.absent += score.absent;
    summary.false_positive_cases += score.false_positive_case;
    summary.missed_cases += score.missed_case;
    summary.scored += score.scored();
  }
  for (const MetricRow& row : kMetrics) {
    double sum = 0;
    for (const Case& one : cases_) {
      const ClassScore& score = one.scores[static_cast<std::size_t>(cls)];
      if (score.scored()) sum += score.*row.value;
    }
    summary.*row.value = ratio(sum, summary.scored);
  }
  return summary;
}

double SegmentationScores::mean(double MetricValues::*metric) const {
  double sum = 0;
  std::int64_t n = 0;
  for (std::size_t c = 1; c < names_.size(); ++c) {
    const ClassSummary one = summary(static_cast<std::int64_t>(c));
    if (one.scored == 0) continue;
    sum += one.*metric;
    ++n;
  }
  return ratio(sum, n);
}

}  // namespace tandem

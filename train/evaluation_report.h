// What `tandem eval` says about its scores: JSON, CSV and a table for a terminal. docs/formats.md describes
// the first two; the scores are data/segmentation_metrics.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/segmentation_metrics.h"

namespace tandem {

// What was scored, beside the scores themselves: a checkpoint, or a folder of predictions.
struct EvaluationInfo {
  std::string checkpoint;  // file name
  std::int64_t step = 0;
  std::string predictions, labels;  // folders; else empty
  double seconds = 0;
  std::string loss_scale_history;

  std::string title() const;  // for people
};

// One object in one line, without a line break at its end.
std::string evaluation_json(const EvaluationInfo& info, const SegmentationScores& scores);
// A header, a row per case and class, a row of means per class, one of all. What is not scored is empty.
std::string evaluation_csv(const SegmentationScores& scores);
// Means per class with n, then the cases where there are few. What is not scored is "-".
std::string evaluation_table(const SegmentationScores& scores);

// Writes NAME.json and NAME.csv (each with a line break at its end), atomically.
void write_evaluation(const std::filesystem::path& name, const EvaluationInfo& info,
                      const SegmentationScores& scores);

}  // namespace tandem

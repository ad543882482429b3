// Whole volumes through a trained model, and scores against the truth. Windows and blending are
// data/sliding_window, scores data/case_score.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/case_score.h"
#include "data/prediction.h"
#include "data/reading_stop.h"
#include "layers/module.h"

namespace tandem {

// A model whose parameters are bound, as the callback of sliding_window: one forward pass without gradients
// in context.compute. `should_stop` (may be empty) is asked before each pass; when it says yes
// Error{kStopped} is thrown. `model` must outlive the callback.
PatchModel patch_model(const Context& context, Module& model, std::function<bool()> should_stop = {});

// What the scores of a job are of: its classes, or the regions with the classes that they hold; the
// background first.
std::vector<ScoredRegion> scored_regions(const LabelMap& labels);

// One case that was scored; the references hold while it is looked at.
struct ScoredCase {
  const PreparedCase& source;
  const LabelPair& labels;
  const SegmentationScores::Case& scores;
};
struct EvaluationRequest {
  WindowOptions window;
  MetricOptions metrics;
  std::function<void(const ScoredCase&)> on_case;  // after each case is scored; may be empty
};
// Scores of `cases` (with labels), read as `data` says. Error{kData} for a case without labels.
SegmentationScores evaluate_cases(const DataOptions& data, const std::vector<CaseEntry>& cases,
                                  const EvaluationRequest& request, const PatchModel& model);

// The validation cases of a job. Their headers are read: a wrong case must not wait for the first validation
// to be found. Error{kData} for one without labels, or with other than `channels` channels; Error{kStopped}
// when `stop_requested` says so between two cases.
std::vector<CaseEntry> checked_validation_cases(const DataOptions& data, std::int64_t channels,
                                                const StopRequested& stop_requested = {});

}  // namespace tandem

// Whole volumes through a trained model, and scores against the truth. Windows and blending are
// data/sliding_window, scores data/case_score.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/case_score.h"
#include "data/prediction.h"
#include "layers/module.h"

namespace tandem {

// A model whose parameters are bound, as the callback of sliding_window: one forward pass without gradients
// in context.compute. `should_stop` (may be empty) is asked before each pass; when it says yes
// Error{kStopped} is thrown. `model` must outlive the callback.
PatchModel patch_model(const Context& context, Module& model, std::function<bool()> should_stop = {});

struct EvaluationRequest {
  WindowOptions window;
  MetricOptions metrics;
  std::function<void(const CaseInfo&, const LabelPair&)> on_case;  // after each case is scored; may be empty
};
// Scores of `cases` (with labels), read as `data` says. Error{kData} for a case without labels.
SegmentationScores evaluate_cases(const DataOptions& data, const std::vector<CaseEntry>& cases,
                                  const EvaluationRequest& request, const PatchModel& model);

}  // namespace tandem

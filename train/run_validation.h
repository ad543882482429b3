// One validation of a training run, and the report that follows from it. What a validation decides is
// train/selection; scoring is train/evaluate.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "train/evaluate.h"
#include "train/job.h"
#include "train/session.h"
#include "train/trainer.h"
#include "train/validation_recorder.h"

namespace tandem {

struct ValidationResult {
  SegmentationScores scores;
  std::optional<ValidationRecorder> record;  // what the report shows; with log.report only
  double seconds = 0;
};

// Scores `cases` as the job says, with the mean weights where the optimizer keeps them. Error{kStopped} when
// `should_stop` says so between two windows; errors of evaluate_cases.
ValidationResult run_validation(const JobOptions& job, const std::vector<CaseEntry>& cases,
                                const ModelSession& session, Trainer& trainer,
                                const std::function<bool()>& should_stop);

// Writes `validation` (may be null) and report.html of a run folder. They follow from its other files, so
// what goes wrong is a warning.
void update_report(const std::filesystem::path& run_folder, const ValidationRecorder* validation);

}  // namespace tandem

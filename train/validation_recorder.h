// Collects what a validation shows of its cases while they are scored, for validation/ of the run folder.
#pragma once

#include <string>
#include <vector>

#include "train/evaluate.h"
#include "train/validation_folder.h"

namespace tandem {

class ValidationRecorder {
 public:
  // `names` of the classes, background first; `metrics` as in validate.metrics.
  ValidationRecorder(std::int64_t step, std::vector<std::string> names,
                     const std::vector<std::string>& metrics);

  // For EvaluationRequest::on_case; the recorder must outlive it.
  std::function<void(const ScoredCase&)> visitor();
  // write_validation of everything seen.
  void write(const std::filesystem::path& run_folder) const { write_validation(run_folder, record_); }

 private:
  void add(const ScoredCase& scored);

  std::vector<std::string> names_;
  std::vector<MetricRow> metrics_;
  ValidationRecord record_;
};

}  // namespace tandem

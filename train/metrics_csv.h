// metrics.csv: the lines of metrics.jsonl as one table for spreadsheets and data frames (RFC 4180).
#pragma once

#include <string>
#include <vector>

#include "train/metrics_log.h"

namespace tandem {

// A row per step and validation; columns kind, step, epoch, loss, lr, scale, event, grad_norm, step_ms,
// data_wait_ms, forward_ms, backward_ms, update_ms, mean_dice, dice_<class>. What a row has nothing to say
// about is empty; a number that is not finite is nan, inf or -inf.
class CsvTable {
 public:
  explicit CsvTable(std::vector<std::string> classes) : classes_(std::move(classes)) {}

  // Each with its line end.
  std::string header() const;
  std::string row(const StepMetrics& metrics) const;
  std::string row(const ValidationMetrics& metrics) const;  // classes without a column are left out
  // Header and every row of `history`, validations behind the steps they follow.
  std::string text(const MetricsHistory& history) const;

 private:
  std::vector<std::string> classes_;
};

}  // namespace tandem

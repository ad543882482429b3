// The log of a run as the run sees it: one call per record, written to metrics.jsonl, metrics.csv and
// TensorBoard.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/metrics_csv.h"
#include "train/metrics_log.h"
#include "train/tensorboard.h"

namespace tandem {

class RunLog {
 public:
  // Opens the logs of a run folder whose files are cut back to `step` (RunFolder::describe). metrics.csv is
  // made anew from `history`, the content of metrics.jsonl; so are the TensorBoard events where there are
  // none. Error{kResource} if a file cannot be opened.
  RunLog(const std::filesystem::path& folder, bool tensorboard, const std::vector<std::string>& classes,
         const MetricsHistory& history);

  // A full disk stops none of these. TensorBoard: loss, lr, loss_scale, grad_norm, step_ms, data_wait_ms
  // under train/; mean_dice, loss and dice/<class> under validation/. A step that was not applied has no
  // grad_norm there.
  void write(const StepMetrics& metrics);
  void write(const ValidationMetrics& metrics);
  void write(const EventMetrics& metrics) { jsonl_.write(metrics); }
  void write(const UsageMetrics& metrics) { jsonl_.write(metrics); }
  // metrics.jsonl is on the disk, or Error{kResource}; the others can be made again from it.
  void sync() { jsonl_.sync(); }

 private:
  MetricsLog jsonl_;
  CsvTable table_;
  std::unique_ptr<AppendFile> csv_;
  std::unique_ptr<TensorboardWriter> tensorboard_;  // null: off
};

}  // namespace tandem

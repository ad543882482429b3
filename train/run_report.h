// What a run tells a person: the block at its start, the block at its end, and the history of the loss scale
// in a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/tensor/device.h"
#include "data/segmentation_metrics.h"
#include "train/job.h"
#include "train/metrics_log.h"
#include "train/session.h"
#include "train/trainer.h"

namespace tandem {

// Times of the steps of this process, the first left out (it makes kernels and plans).
class StepTimes {
 public:
  void add(const StepReport& report);
  std::int64_t count() const { return count_; }
  double total_ms() const { return total_ms_; }
  double wait_ms() const { return wait_ms_; }
  double median_ms() const;

 private:
  std::int64_t count_ = 0;
  double total_ms_ = 0, wait_ms_ = 0;
  std::vector<float> each_ms_;
};

// The lines of metrics.jsonl; step, epoch and seconds of a validation are the caller's. loss_offset: added to
// the loss.
StepMetrics step_metrics(const StepReport& report, double loss_offset);
ValidationMetrics validation_metrics(const SegmentationScores& scores,
                                     const std::vector<std::string>& metrics);

// Device, instruction set, threads, precision, model, data.
std::string start_report(const JobOptions& job, const ModelSession& session, Trainer& trainer,
                         std::int64_t cases);
// Steps, applied and skipped; median step; share of data wait; peak memory by category; loss scale.
std::string end_report(const Trainer& trainer, const StepTimes& times, const std::string& scale_history);
// "412 MiB (activations 380 MiB, weights 12 MiB, ...)": peak of this process on `device`.
std::string memory_text(const Device& device);

}  // namespace tandem

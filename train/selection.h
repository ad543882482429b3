// What the metric of a validation decides: which checkpoints are kept as the best, when training ends early,
// and when the schedule plateau lowers the learning rate.
#pragma once

#include <string>
#include <vector>

#include "data/segmentation_metrics.h"
#include "train/job.h"
#include "train/trainer.h"

namespace tandem {

class Selection {
 public:
  explicit Selection(const JobOptions& job);

  // The value of select.metric; NaN for none.
  double value(const SegmentationScores& scores) const;
  // Takes the value of the validation at `step`; whether it changed anything that a checkpoint of this step
  // must hold. A step that was taken before changes nothing, so a validation may be repeated after a resume.
  bool note(std::int64_t step, double value, Trainer& trainer);
  // Whether train.early_stop has run out of patience.
  bool should_stop() const;
  std::string stop_text() const;  // why

  void save(CheckpointContent& content) const;
  void load(const CheckpointContent& content);

  const std::vector<RankedCheckpoint>& best() const { return best_; }
  const MetricWatch& watch() const { return watch_; }

 private:
  const JobOptions& job_;
  std::vector<RankedCheckpoint> best_;
  MetricWatch watch_;
};

}  // namespace tandem

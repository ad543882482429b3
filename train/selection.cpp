// The decisions after a validation.
#include "train/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {

Selection::Selection(const JobOptions& job) : job_(job) {}

double Selection::value(const SegmentationScores& scores) const {
  for (const MetricRow& row : metric_table())
    if (row.name == job_.select.metric) return scores.mean(row.value);
  return std::numeric_limits<double>::quiet_NaN();
}

bool Selection::note(std::int64_t step, double value, Trainer& trainer) {
  if (job_.select.metric == "none") return false;
  const MetricMode mode = job_.select.mode;
  const bool ranked_before = std::ranges::find(best_, step, &RankedCheckpoint::step) != best_.end();
  bool changed = !ranked_before &&
                 rank_checkpoint(best_, {step, value}, mode == MetricMode::kMax, job_.checkpoint.keep_best);
  if (job_.train.early_stop)
    changed = watch_metric(watch_, step, value, mode, job_.train.early_stop->min_delta) || changed;
  trainer.note_metric(step, value, mode);
  return changed || job_.schedule.name == ScheduleKind::kPlateau;
}

bool Selection::should_stop() const {
  return job_.train.early_stop && watch_.bad >= job_.train.early_stop->patience;
}

std::string Selection::stop_text() const {
  return fmt::format("{} validations without improvement of {} (best {:.4f})", watch_.bad, job_.select.metric,
                     watch_.best);
}

void Selection::save(CheckpointContent& content) const {
  content.best = best_;
  content.early_stop = watch_;
}

void Selection::load(const CheckpointContent& content) {
  best_ = content.best;
  watch_ = content.early_stop;
}

}  // namespace tandem

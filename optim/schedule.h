// The learning rate of an applied step (skipped steps do not count), and the state of the schedule that
// watches a validation metric.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/fields.h"

namespace tandem {

enum class ScheduleKind { kConstant, kStep, kMultiStep, kCosine, kPoly, kPlateau, kOneCycle };

struct ScheduleOptions {
  ScheduleKind name = ScheduleKind::kConstant;
  double power = 0.9;                      // poly
  double min_factor = 0;                   // cosine, plateau: floor as a part of lr
  std::int64_t every = 1000;               // step
  std::vector<std::int64_t> milestones{};  // multistep, rising
  double gamma = 0.1;                      // step, multistep: factor at each
  // plateau: factor after more than `patience` validations in a row that are not better by the part
  // `threshold`; then `cooldown` validations do not count as bad.
  double factor = 0.1;
  std::int64_t patience = 10, cooldown = 0;
  double threshold = 1e-4;
  // onecycle: rise from lr / div_factor over the part pct_start of the steps, then fall to
  // lr / div_factor / final_div_factor.
  double pct_start = 0.3, div_factor = 25, final_div_factor = 1e4;
  bool linear = false;      // onecycle: straight lines instead of cosines
  std::int64_t warmup = 0;  // steps of a linear rise; multiplies the schedule
};
Fields fields(ScheduleOptions& options);

// lr * warm-up * shape(t), t = applied steps so far (0 for the first), T = total steps of the run:
//   warm-up    min(1, (t + 1) / warmup)          constant, plateau  1
//   (t beyond T counts as T)
//   step       gamma^floor(t / every)            multistep  gamma^(milestones <= t)
//   poly       (1 - t/T)^power                   cosine     f + (1 - f) (1 + cos(pi t/T)) / 2
//   onecycle   PyTorch's OneCycleLR of T steps, lr its max_lr
// The factor of plateau is PlateauState's.
double scheduled_lr(const ScheduleOptions& options, double lr, std::int64_t applied, std::int64_t total);

// A validation metric watched for improvement.
struct MetricWatch {
  double best = 0;             // where improved > 0
  std::int64_t improved = 0;   // values that were improvements
  std::int64_t bad = 0;        // in a row that were none
  std::int64_t last_step = 0;  // of the last value: one that comes again is passed over
};
enum class MetricMode { kMax, kMin };

// Takes the value of `step`; whether it was new. An improvement is better than the best by more than `delta`,
// or is the first one that is a number; NaN is none.
bool watch_metric(MetricWatch& watch, std::int64_t step, double value, MetricMode mode, double delta);

struct PlateauState {
  MetricWatch watch;
  std::int64_t cooldown_left = 0;
  double factor = 1;  // on the scheduled lr
};
// After a validation at `step`; PyTorch's ReduceLROnPlateau with threshold_mode rel. Does nothing for other
// schedules, or a step seen before.
void plateau_update(PlateauState& state, const ScheduleOptions& options, std::int64_t step, double value,
                    MetricMode mode);

}  // namespace tandem

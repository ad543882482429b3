// The learning rate of an applied step. Skipped steps do not count.
#pragma once

#include <cstdint>

#include "core/config/fields.h"

namespace tandem {

enum class ScheduleKind { kConstant, kPoly, kCosine };

struct ScheduleOptions {
  ScheduleKind name = ScheduleKind::kConstant;
  double power = 0.9;       // poly
  double min_factor = 0;    // cosine: floor as a part of lr
  std::int64_t warmup = 0;  // steps of a linear rise; multiplies the schedule
};
Fields fields(ScheduleOptions& options);

// lr * warm-up * shape(t), t = applied steps so far (0 for the first), T = total steps of the run:
//   warm-up  min(1, (t + 1) / warmup)          constant 1
//   (t beyond T counts as T)
//   poly     (1 - t/T)^power                    cosine  f + (1 - f) (1 + cos(pi t/T)) / 2
double scheduled_lr(const ScheduleOptions& options, double lr, std::int64_t applied, std::int64_t total);

}  // namespace tandem

// Shapes of the learning rate.
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tandem {

Fields fields(ScheduleOptions& o) {
  return Fields()
      .choice("name", o.name,
              {{"constant", ScheduleKind::kConstant},
               {"poly", ScheduleKind::kPoly},
               {"cosine", ScheduleKind::kCosine}},
              "Shape of the learning rate over the applied steps")
      .number("power", o.power, {.min = 0, .max = 100}, "Of (1 - t/T)^power")
      .number("min_factor", o.min_factor, {.min = 0, .max = 1}, "Floor of the cosine as a part of lr")
      .integer("warmup", o.warmup, {.min = 0, .max = 1'000'000'000},
               "Linear rise at the start; multiplies the shape", "steps")
      .only_for({"power"}, "name", {"poly"})
      .only_for({"min_factor"}, "name", {"cosine"});
}

double scheduled_lr(const ScheduleOptions& options, double lr, std::int64_t applied, std::int64_t total) {
  const double warmup =
      options.warmup > 0
          ? std::min(1.0, static_cast<double>(applied + 1) / static_cast<double>(options.warmup))
          : 1.0;
  const double progress =
      total > 0 ? std::clamp(static_cast<double>(applied) / static_cast<double>(total), 0.0, 1.0) : 0.0;
  double shape = 1;
  if (options.name == ScheduleKind::kPoly)
    shape = std::pow(1 - progress, options.power);
  else if (options.name == ScheduleKind::kCosine)
    shape = options.min_factor + (1 - options.min_factor) * (1 + std::cos(std::numbers::pi * progress)) / 2;
  return lr * warmup * shape;
}

}  // namespace tandem

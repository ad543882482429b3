// Shapes of the learning rate, and the watch on a metric.
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tandem {
namespace {

// From `start` to `end` as part goes from 0 to 1.
double anneal(double start, double end, double part, bool linear) {
  return linear ? start + (end - start) * part
                : end + (start - end) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

// PyTorch's two phases: up to step pct_start T - 1, down to step T - 1.
double one_cycle(const ScheduleOptions& o, double t, double total) {
  const double first = 1 / o.div_factor, last = first / o.final_div_factor;
  const double peak = o.pct_start * total - 1, end = total - 1;
  if (t <= peak) return peak > 0 ? anneal(first, 1, t / peak, o.linear) : 1;
  const double start = std::max(peak, 0.0);
  return end > start ? anneal(1, last, std::min((t - peak) / (end - peak), 1.0), o.linear) : last;
}

double shape_of(const ScheduleOptions& o, std::int64_t applied, std::int64_t total) {
  const auto t = static_cast<double>(std::clamp<std::int64_t>(applied, 0, std::max<std::int64_t>(total, 0)));
  const double progress = total > 0 ? t / static_cast<double>(total) : 0.0;
  switch (o.name) {
    case ScheduleKind::kStep:
      return std::pow(o.gamma, static_cast<double>(applied / o.every));
    case ScheduleKind::kMultiStep:
      return std::pow(o.gamma, static_cast<double>(std::ranges::count_if(
                                   o.milestones, [&](std::int64_t m) { return m <= applied; })));
    case ScheduleKind::kCosine:
      return o.min_factor + (1 - o.min_factor) * (1 + std::cos(std::numbers::pi * progress)) / 2;
    case ScheduleKind::kPoly:
      return std::pow(1 - progress, o.power);
    case ScheduleKind::kOneCycle:
      return one_cycle(o, t, static_cast<double>(total));
    case ScheduleKind::kConstant:
    case ScheduleKind::kPlateau:
      break;
  }
  return 1;
}

}  // namespace

Fields fields(ScheduleOptions& o) {
  return Fields()
      .choice("name", o.name,
              {{"constant", ScheduleKind::kConstant},
               {"step", ScheduleKind::kStep},
               {"multistep", ScheduleKind::kMultiStep},
               {"cosine", ScheduleKind::kCosine},
               {"poly", ScheduleKind::kPoly},
               {"plateau", ScheduleKind::kPlateau},
               {"onecycle", ScheduleKind::kOneCycle}},
              "Shape of the learning rate over the applied steps; onecycle moves the rate alone, momentum "
              "and beta1 "
              "stay (PyTorch's default cycles them too)")
      .number("power", o.power, {.min = 0, .max = 100}, "Of (1 - t/T)^power")
      .number("min_factor", o.min_factor, {.min = 0, .max = 1}, "Floor of cosine and plateau as a part of lr")
      .integer("every", o.every, {.min = 1, .max = 1'000'000'000}, "Steps between two falls", "steps")
      .integers("milestones", o.milestones, {.min = 1, .max = 1'000'000'000}, "Where the rate falls", "steps")
      .number("gamma", o.gamma, {.min = 0, .max = 1, .exclusive_min = true}, "Factor of each fall")
      .number("factor", o.factor, {.min = 0, .max = 1, .exclusive_max = true},
              "Factor when select.metric no longer improves")
      .integer("patience", o.patience, {.min = 0, .max = 1'000'000},
               "Validations without improvement that are borne", "validations")
      .integer("cooldown", o.cooldown, {.min = 0, .max = 1'000'000}, "Rest after a fall", "validations")
      .number("threshold", o.threshold, {.min = 0, .max = 1},
              "Part of the best value that counts as improvement")
      .number("pct_start", o.pct_start, {.min = 0, .max = 1}, "Part of the steps that rises")
      .number("div_factor", o.div_factor, {.min = 1, .max = 1e12}, "lr divided by the first rate")
      .number("final_div_factor", o.final_div_factor, {.min = 1, .max = 1e12},
              "The first rate divided by the last")
      .flag("linear", o.linear, "Straight lines instead of cosines")
      .integer("warmup", o.warmup, {.min = 0, .max = 1'000'000'000},
               "Linear rise at the start; multiplies the shape", "steps")
      .only_for({"power"}, "name", {"poly"})
      .only_for({"min_factor"}, "name", {"cosine", "plateau"})
      .only_for({"every"}, "name", {"step"})
      .only_for({"milestones"}, "name", {"multistep"})
      .only_for({"gamma"}, "name", {"step", "multistep"})
      .only_for({"factor", "patience", "cooldown", "threshold"}, "name", {"plateau"})
      .only_for({"pct_start", "div_factor", "final_div_factor", "linear"}, "name", {"onecycle"})
      .check(
          [&o](ErrorList& errors) {
            if (!std::ranges::is_sorted(o.milestones))
              errors.rule("milestones", "got steps out of order, expected rising ones");
            if (o.name == ScheduleKind::kMultiStep && o.milestones.empty())
              errors.rule("milestones", "got none, expected at least one step");
          },
          {"name", "milestones"});
}

double scheduled_lr(const ScheduleOptions& options, double lr, std::int64_t applied, std::int64_t total) {
  const double warmup =
      options.warmup > 0
          ? std::min(1.0, static_cast<double>(applied + 1) / static_cast<double>(options.warmup))
          : 1.0;
  return lr * warmup * shape_of(options, applied, total);
}

bool watch_metric(MetricWatch& watch, std::int64_t step, double value, MetricMode mode, double delta) {
  if (step <= watch.last_step) return false;
  const double gain = mode == MetricMode::kMax ? value - watch.best : watch.best - value;
  const bool better = !std::isnan(value) && (watch.improved == 0 || gain > delta);
  if (better) watch.best = value;
  watch.improved += better ? 1 : 0;
  watch.bad = better ? 0 : watch.bad + 1;
  watch.last_step = step;
  return true;
}

void plateau_update(PlateauState& state, const ScheduleOptions& options, std::int64_t step, double value,
                    MetricMode mode) {
  if (options.name != ScheduleKind::kPlateau) return;
  const double delta = std::abs(state.watch.best) * options.threshold;
  if (!watch_metric(state.watch, step, value, mode, delta)) return;
  if (state.cooldown_left > 0) {
    --state.cooldown_left;
    state.watch.bad = 0;
  }
  if (state.watch.bad <= options.patience) return;
  state.factor = std::max(state.factor * options.factor, options.min_factor);
  state.cooldown_left = options.cooldown;
  state.watch.bad = 0;
}

}  // namespace tandem

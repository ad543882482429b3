// The learning rate of an applied step.
#include "optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "tests/refs/ref_file.h"

namespace tandem {
namespace {

// nnU-Net's schedule per epoch, medical.md 2.3.
TEST(Schedule, PolyIsNnunets) {
  const ScheduleOptions poly{.name = ScheduleKind::kPoly, .power = 0.9};
  const std::pair<int, double> rows[] = {{0, .01},         {1, .009991},     {10, .00990995},
                                         {100, .00909533}, {500, .00535887}, {900, .00125893},
                                         {999, 1.99526e-5}};
  for (const auto& [epoch, lr] : rows)
    EXPECT_NEAR(scheduled_lr(poly, 0.01, epoch, 1000) / lr, 1, 5e-6) << epoch;
  EXPECT_EQ(scheduled_lr(poly, 0.01, 1000, 1000), 0);
  EXPECT_EQ(scheduled_lr(poly, 0.01, 2000, 1000), 0);
}

TEST(Schedule, CosineFallsToItsFloor) {
  const ScheduleOptions cosine{.name = ScheduleKind::kCosine, .min_factor = 0.1};
  EXPECT_DOUBLE_EQ(scheduled_lr(cosine, 2, 0, 100), 2);
  EXPECT_DOUBLE_EQ(scheduled_lr(cosine, 2, 50, 100), 2 * 0.55);
  EXPECT_NEAR(scheduled_lr(cosine, 2, 25, 100), 2 * (0.1 + 0.9 * (1 + 0.70710678118654752) / 2), 1e-14);
  EXPECT_DOUBLE_EQ(scheduled_lr(cosine, 2, 100, 100), 0.2);
  EXPECT_DOUBLE_EQ(scheduled_lr(cosine, 2, 500, 100), 0.2);
}

TEST(Schedule, WarmupIsALinearRiseThatMultiplies) {
  const ScheduleOptions warm{.warmup = 4};
  for (int t = 0; t < 8; ++t)
    EXPECT_DOUBLE_EQ(scheduled_lr(warm, 1, t, 100), std::min(1.0, (t + 1) / 4.0)) << t;
  const ScheduleOptions poly{.name = ScheduleKind::kPoly, .power = 1, .warmup = 4};
  EXPECT_DOUBLE_EQ(scheduled_lr(poly, 1, 1, 10), 0.5 * 0.9);
  EXPECT_DOUBLE_EQ(scheduled_lr({}, 3, 17, 100), 3);
}

// tests/refs/make_refs.py, schedule_reference.
TEST(Schedule, EqualsPyTorch) {
  const tests::RefFile ref("schedule.ref");
  const std::pair<const char*, ScheduleOptions> rows[] = {
      {"step", {.name = ScheduleKind::kStep, .every = 7, .gamma = 0.5}},
      {"multistep", {.name = ScheduleKind::kMultiStep, .milestones = {5, 6, 20}}},
      {"onecycle", {.name = ScheduleKind::kOneCycle}},
      {"onecycle_linear",
       {.name = ScheduleKind::kOneCycle,
        .pct_start = 0.25,
        .div_factor = 10,
        .final_div_factor = 100,
        .linear = true}}};
  for (const auto& [name, options] : rows)
    for (std::size_t t = 0; t < 40; ++t)
      EXPECT_NEAR(scheduled_lr(options, 0.1, static_cast<std::int64_t>(t), 41), ref.values(name)[t], 1e-12)
          << name << " " << t;
}

TEST(Schedule, OneCycleStaysFiniteForFewSteps) {
  for (const std::int64_t total : {0, 1, 2, 3})
    for (const double part : {0.0, 0.3, 1.0})
      for (std::int64_t t = 0; t <= total + 1; ++t) {
        const double lr = scheduled_lr({.name = ScheduleKind::kOneCycle, .pct_start = part}, 1, t, total);
        EXPECT_TRUE(lr > 0 && lr <= 1) << total << " " << part << " " << t << ": " << lr;
      }
}

TEST(Plateau, EqualsPyTorch) {
  const tests::RefFile ref("schedule.ref");
  const ScheduleOptions options{.name = ScheduleKind::kPlateau,
                                .min_factor = 0.03,
                                .factor = 0.5,
                                .patience = 2,
                                .cooldown = 1,
                                .threshold = 1e-3};
  for (const MetricMode mode : {MetricMode::kMax, MetricMode::kMin}) {
    const bool max = mode == MetricMode::kMax;
    PlateauState state;
    for (std::size_t i = 0; i < ref.values("metric").size(); ++i) {
      const double metric = ref.values("metric")[i];
      const auto step = static_cast<std::int64_t>(i) + 1;
      plateau_update(state, options, step, max ? metric : 1 - metric, mode);
      plateau_update(state, options, step, -1, mode);  // seen before: passed over
      EXPECT_NEAR(0.1 * state.factor, ref.values(max ? "plateau_max" : "plateau_min")[i], 1e-12) << i;
    }
  }
  PlateauState untouched;
  plateau_update(untouched, {.name = ScheduleKind::kPoly}, 1, 0.5, MetricMode::kMax);
  EXPECT_EQ(untouched.watch.last_step, 0);
}

TEST(MetricWatch, NanIsNoImprovementAndTheFirstNumberIs) {
  MetricWatch watch;
  EXPECT_TRUE(watch_metric(watch, 10, std::nan(""), MetricMode::kMin, 0));
  EXPECT_EQ(watch.bad, 1);
  EXPECT_TRUE(watch_metric(watch, 20, 5, MetricMode::kMin, 0));
  EXPECT_EQ(watch.bad, 0);
  EXPECT_EQ(watch.best, 5);
  EXPECT_FALSE(watch_metric(watch, 20, 1, MetricMode::kMin, 0));
  EXPECT_TRUE(watch_metric(watch, 30, 4.9, MetricMode::kMin, 0.2));
  EXPECT_EQ(watch.bad, 1);
  EXPECT_EQ(watch.best, 5);
}

TEST(ScheduleOptions, KeysBelongToTheirShape) {
  const auto parse = [](const std::string& yaml) {
    ScheduleOptions o;
    parse_options(parse_yaml_text(yaml, "job.yaml"), fields(o));
    return o;
  };
  const ScheduleOptions o = parse("name: poly\npower: 0.5\nwarmup: 20\n");
  EXPECT_EQ(o.name, ScheduleKind::kPoly);
  EXPECT_EQ(o.power, 0.5);
  EXPECT_EQ(o.warmup, 20);
  EXPECT_THROW(parse("name: constant\npower: 0.5\n"), Error);
  EXPECT_THROW(parse("name: poly\nmin_factor: 0.5\n"), Error);
  EXPECT_THROW(parse("warmup: -1\n"), Error);
  EXPECT_EQ(parse("name: multistep\nmilestones: [3, 9]\ngamma: 0.5\n").milestones,
            (std::vector<std::int64_t>{3, 9}));
  EXPECT_THROW(parse("name: multistep\nmilestones: [9, 3]\n"), Error);
  EXPECT_THROW(parse("name: multistep\n"), Error);
  EXPECT_THROW(parse("name: plateau\nevery: 5\n"), Error);
}

}  // namespace
}  // namespace tandem

// The learning rate of an applied step.
#include "optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

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
}

}  // namespace
}  // namespace tandem

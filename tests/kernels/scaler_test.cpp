// The loss scaler's state machine: vectors V1-V7, V9, V17 and V19 of the research notes, and its limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/step_state.h"

namespace tandem {
namespace {

constexpr float k64 = 65536, k128 = 131072, k32 = 32768, k16 = 16384;

struct Trace {
  std::vector<float> scale;
  std::vector<int> good, hysteresis;
  StepState state;
  int ended_at = 0;  // the step whose verdict ended the run, 0: none
};

StepState started(float init, const ScalerKnobs& knobs) {
  StepState s;
  s.scale = init;
  s.inverse = inverse_scale(init);
  s.hysteresis_left = knobs.hysteresis;
  return s;
}

// Events G, O, F in a string; stops at a verdict.
Trace run(StepState state, const ScalerKnobs& knobs, const std::string& events) {
  Trace trace{.state = state};
  for (const char event : events) {
    trace.state.event = event == 'G'   ? StepEvent::kGood
                        : event == 'O' ? StepEvent::kOverflow
                                       : StepEvent::kForward;
    kernels::scaler_update(trace.state, knobs);
    trace.scale.push_back(trace.state.scale);
    trace.good.push_back(trace.state.good_steps);
    trace.hysteresis.push_back(trace.state.hysteresis_left);
    EXPECT_EQ(trace.state.inverse, static_cast<float>(1.0 / static_cast<double>(trace.state.scale)));
    if (trace.state.verdict == ScalerVerdict::kContinue) continue;
    trace.ended_at = static_cast<int>(trace.scale.size());
    break;
  }
  return trace;
}

constexpr const char* kEvents = "GGGOGGOOGGGG";
constexpr ScalerKnobs kThree{.dynamic = 1, .growth_interval = 3};

ScalerKnobs with_hysteresis(int hysteresis, int refill_on_growth) {
  ScalerKnobs knobs = kThree;
  knobs.hysteresis = hysteresis;
  knobs.refill_on_growth = refill_on_growth;
  return knobs;
}

using Scales = std::vector<float>;
using Counts = std::vector<int>;

TEST(Scaler, V1PyTorchBehaviour) {
  const Trace t = run(started(k64, kThree), kThree, kEvents);
  EXPECT_EQ(t.scale, (Scales{k64, k64, k128, k64, k64, k64, k32, k16, k16, k16, k32, k32}));
  EXPECT_EQ(t.good, (Counts{1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0, 1}));
  EXPECT_EQ(t.state.applied, 9);
  EXPECT_EQ(t.state.attempted, 12);
  EXPECT_EQ(t.state.skipped_overflow, 3);
  EXPECT_EQ(t.state.skipped_forward, 0);
  EXPECT_EQ(t.state.last_overflow_step, 8);
}

TEST(Scaler, V2HysteresisRefilledByGoodSteps) {
  const ScalerKnobs knobs = with_hysteresis(2, 0);
  const Trace t = run(started(k64, knobs), knobs, kEvents);
  EXPECT_EQ(t.scale, (Scales{k64, k64, k128, k128, k128, k128, k128, k64, k64, k64, k128, k128}));
  EXPECT_EQ(t.hysteresis, (Counts{2, 2, 2, 1, 2, 2, 1, 0, 2, 2, 2, 2}));
}

TEST(Scaler, V3HysteresisRefilledByGrowth) {
  const ScalerKnobs knobs = with_hysteresis(2, 1);
  const Trace t = run(started(k64, knobs), knobs, kEvents);
  EXPECT_EQ(t.scale, (Scales{k64, k64, k128, k128, k128, k128, k64, k32, k32, k32, k64, k64}));
  EXPECT_EQ(t.hysteresis, (Counts{2, 2, 2, 1, 1, 1, 0, 0, 0, 0, 2, 2}));
}

TEST(Scaler, V4FloorThenEnd) {
  const Trace t = run(started(k64, kThree), kThree, std::string(40, 'O'));
  for (int i = 0; i < 24; ++i)
    EXPECT_EQ(t.scale[static_cast<std::size_t>(i)], i < 16 ? k32 / static_cast<float>(1 << i) : 1) << i;
  EXPECT_EQ(t.ended_at, 24);
  EXPECT_EQ(t.state.verdict, ScalerVerdict::kAtFloor);
  EXPECT_EQ(t.state.skips_at_min, 8);
}

TEST(Scaler, V5SmallFloor) {
  ScalerKnobs knobs = kThree;
  knobs.max_skips_at_min = 3;
  const Trace t = run(started(8, knobs), knobs, std::string(40, 'O'));
  EXPECT_EQ(t.scale, (Scales{4, 2, 1, 1, 1, 1}));
  EXPECT_EQ(t.ended_at, 6);
}

TEST(Scaler, V6Ceiling) {
  const Trace t = run(started(0x1p23f, kThree), kThree, "GGGGGGGGG");
  constexpr float k23 = 0x1p23f, k24 = 0x1p24f;
  EXPECT_EQ(t.scale, (Scales{k23, k23, k24, k24, k24, k24, k24, k24, k24}));
  EXPECT_EQ(t.good, (Counts{1, 2, 0, 1, 2, 0, 1, 2, 0}));
}

TEST(Scaler, V7ForwardNonfiniteKeepsTheScale) {
  const Trace t = run(started(k64, kThree), kThree, "GGFGFFFFF");
  EXPECT_EQ(t.scale, Scales(9, k64));
  EXPECT_EQ(t.good, (Counts{1, 2, 0, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(t.ended_at, 9);
  EXPECT_EQ(t.state.verdict, ScalerVerdict::kNonfiniteLoss);
  EXPECT_EQ(t.state.applied, 3);
  EXPECT_EQ(t.state.skipped_forward, 6);
  ScalerKnobs parity = kThree;
  parity.backoff_on_forward = 1;
  EXPECT_EQ(run(started(k64, parity), parity, "GGFGFFFFF").scale,
            (Scales{k64, k64, k32, k32, k16, 8192, 4096, 2048, 1024}));
}

TEST(Scaler, V9FactorsThatAreNoPowersOfTwo) {
  ScalerKnobs knobs = kThree;
  knobs.growth_factor = 1.5f;
  knobs.backoff_factor = 0.75f;
  EXPECT_EQ(run(started(1000, knobs), knobs, "GGGOO").scale, (Scales{1000, 1000, 1500, 1125, 843.75f}));
}

TEST(Scaler, V17ResumedTailIsTheSame) {
  for (const int hysteresis : {1, 2}) {
    const ScalerKnobs knobs = with_hysteresis(hysteresis, 0);
    const Trace whole = run(started(k64, knobs), knobs, "GGGOGGOOGGGG");
    const Trace head = run(started(k64, knobs), knobs, "GGGOGG");
    const StepState saved = head.state;  // everything the scaler needs is in it
    const Trace tail = run(saved, knobs, "OOGGGG");
    EXPECT_EQ(tail.scale, Scales(whole.scale.begin() + 6, whole.scale.end()));
    EXPECT_EQ(tail.hysteresis, Counts(whole.hysteresis.begin() + 6, whole.hysteresis.end()));
    EXPECT_EQ(tail.state.applied, whole.state.applied);
    EXPECT_EQ(tail.state.skipped_overflow, whole.state.skipped_overflow);
    EXPECT_EQ(tail.state.last_overflow_step, whole.state.last_overflow_step);
  }
}

TEST(Scaler, V19InverseIsRoundedFromDouble) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(inverse_scale(3)), 0x3EAAAAABu);
}

TEST(Scaler, StaticScaleNeverMovesButLimitsHold) {
  ScalerKnobs knobs;  // dynamic = 0
  knobs.max_consecutive_skips = 6;
  const Trace t = run(started(1024, knobs), knobs, "GOOGOOOOOOG");
  EXPECT_EQ(t.scale, Scales(10, 1024.0f));
  EXPECT_EQ(t.ended_at, 10);
  EXPECT_EQ(t.state.verdict, ScalerVerdict::kConsecutiveSkips);
  EXPECT_EQ(t.state.skips_at_min, 0);
}

TEST(Scaler, MixedSkipsCountTogether) {
  ScalerKnobs knobs = kThree;
  knobs.max_consecutive_skips = 7;
  const Trace t = run(started(k64, knobs), knobs, "FOFOFOFOFO");
  EXPECT_EQ(t.ended_at, 7);
  EXPECT_EQ(t.state.verdict, ScalerVerdict::kConsecutiveSkips);
}

// amp.md 2.3.6 and V11: min(1, max_norm / (norm + 1e-6)).
TEST(Scaler, ClipFactor) {
  EXPECT_EQ(clip_factor(5, 1), static_cast<float>(1 / 5.000001));
  EXPECT_EQ(3 * clip_factor(5, 1), 0.59999988f);
  EXPECT_EQ(clip_factor(0.5, 1), 1.0f);
  EXPECT_EQ(clip_factor(1e30, 0), 1.0f);
  EXPECT_EQ(clip_factor(0, 12), 1.0f);
}

// Mode headroom, one step at a time: what the gradients' magnitudes do to the scale.
class Headroom : public ::testing::Test {
 protected:
  // A good step whose largest 16-bit gradient is `amax`; the scale after it.
  float good(float amax) { return step(StepEvent::kGood, amax); }
  float step(StepEvent event, float amax) {
    state.event = event;
    state.gradient_amax = amax;
    kernels::scaler_update(state, knobs);
    return state.scale;
  }

  const ScalerKnobs knobs{.dynamic = 1, .growth_interval = 4, .headroom = 1};
  StepState state = started(k64, knobs);
};

TEST_F(Headroom, GrowsWhereTwiceTheScaleLeavesAFactorOfTwo) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(good(1), k64);
  EXPECT_EQ(good(16376), k128) << "65504 / 4 leaves room";
  EXPECT_EQ(state.interval_peak, 0);
  EXPECT_EQ(state.gradient_peak, 16376 / k64);
}

// Every step of the interval counts, the first one too.
TEST_F(Headroom, APeakAnywhereInTheIntervalWithholdsTheGrowth) {
  EXPECT_EQ(good(16384), k64);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(good(1), k64);
  EXPECT_EQ(state.withheld_growths, 1);
  EXPECT_EQ(state.good_steps, 0) << "the next decision is an interval later";
}

// 30000 of scale 2^16 fades by 2^-1/2 with each decision: 15000 after two more has room.
TEST_F(Headroom, APeakIsRememberedAndFades) {
  good(30000);
  for (int i = 0; i < 3; ++i) good(1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(good(1), k64) << "30000 is remembered";
  for (int i = 0; i < 4; ++i) EXPECT_EQ(good(1), k64) << "21213";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(good(1), k64);
  EXPECT_EQ(good(1), k128) << "15000 has room";
  EXPECT_EQ(state.withheld_growths, 3);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(good(1), k128) << "10607 of the smaller scale is 21213 of this one";
}

// Less than a factor of two left: the scale is lowered before a step is lost.
TEST_F(Headroom, BacksOffBeforeAnOverflow) {
  EXPECT_EQ(good(32752), k64) << "65504 / 2: a factor of two is left";
  EXPECT_EQ(good(32768), k32);
  EXPECT_EQ(state.early_backoffs, 1);
  EXPECT_EQ(state.applied, 2);
  EXPECT_EQ(state.skipped_overflow, 0);
  EXPECT_EQ(state.good_steps, 0);
  StepState at_floor = state;
  at_floor.scale = 1;
  std::swap(state, at_floor);
  EXPECT_EQ(good(60000), 1) << "never below min";
}

// The magnitude of an overflow is a peak like others; one that nobody knows counts as the largest number.
TEST_F(Headroom, AnOverflowIsRemembered) {
  EXPECT_EQ(step(StepEvent::kOverflow, 80000), k32);
  EXPECT_EQ(state.interval_peak, 80000 / k64);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(good(1), k32) << "80000 is 40000 of this scale";
  state = started(k64, knobs);
  EXPECT_EQ(step(StepEvent::kOverflow, std::numeric_limits<float>::infinity()), k32);
  EXPECT_EQ(state.interval_peak, 65504 / k64);
  EXPECT_EQ(step(StepEvent::kForward, 1e30f), k32);
  EXPECT_EQ(state.interval_peak, 65504 / k64) << "a loss that is not finite says nothing of gradients";
}

}  // namespace
}  // namespace tandem

// The loss scaler: vectors V1-V9, V17, V19 of amp.md 2.7 through LossScaler and StepState, options,
// resumption, aborts.
#include "optim/loss_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/error.h"

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Not;

constexpr float k16 = 16384, k32 = 32768, k64 = 65536, k128 = 131072;
constexpr const char* kEventsA = "GGGOGGOOGGGG";

// What a run of events ("GOF") leaves after each step; stops at an abort.
struct Trace {
  std::vector<float> scale;
  std::vector<int> good_steps, hysteresis_left;
  int aborted_at = 0;  // step number, 0 if never
  std::string abort_text;
};

Trace run(const LossScaler& scaler, StepState& state, std::string_view events) {
  Trace trace;
  int step = 0;
  for (const char event : events) {
    ++step;
    prepare_step(state, 0.01);
    state.event = event == 'G' ? StepEvent::kGood : event == 'O' ? StepEvent::kOverflow : StepEvent::kForward;
    try {
      scaler.update(state, [] {
        return ScalerDiagnosis{.first_nonfinite = "backward, layer enc0.conv1",
                               .source = NonfiniteSource::kBackward,
                               .recent_events = "7 overflow at 1",
                               .base_lr = 0.1};
      });
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
      trace.aborted_at = step;
      trace.abort_text = error.what();
    }
    trace.scale.push_back(state.scale);
    trace.good_steps.push_back(state.good_steps);
    trace.hysteresis_left.push_back(state.hysteresis_left);
    if (trace.aborted_at) break;
  }
  return trace;
}

struct ScalerRun {
  LossScaler scaler;
  StepState state;
  Trace trace;
  ScalerRun(const LossScaleOptions& options, std::string_view events, DType compute = DType::kF16)
      : scaler(options, compute), state(scaler.initial_state()), trace(run(scaler, state, events)) {}
};

TEST(LossScalerVectors, V1HysteresisOne) {
  const ScalerRun r({.growth_interval = 3}, kEventsA);
  EXPECT_THAT(r.trace.scale, ElementsAre(k64, k64, k128, k64, k64, k64, k32, k16, k16, k16, k32, k32));
  EXPECT_THAT(r.trace.good_steps, ElementsAre(1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0, 1));
  EXPECT_EQ(r.state.applied, 9);
  EXPECT_EQ(r.state.skipped_overflow, 3);
  EXPECT_EQ(r.state.attempted, 12);
  EXPECT_EQ(r.state.last_overflow_step, 8);
}

TEST(LossScalerVectors, V2HysteresisTwoRefilledOnGood) {
  const ScalerRun r({.growth_interval = 3, .hysteresis = 2}, kEventsA);
  EXPECT_THAT(r.trace.scale, ElementsAre(k64, k64, k128, k128, k128, k128, k128, k64, k64, k64, k128, k128));
  EXPECT_THAT(r.trace.hysteresis_left, ElementsAre(2, 2, 2, 1, 2, 2, 1, 0, 2, 2, 2, 2));
}

TEST(LossScalerVectors, V3HysteresisTwoRefilledOnGrowth) {
  const ScalerRun r({.growth_interval = 3, .hysteresis = 2, .hysteresis_refill = "on_growth"}, kEventsA);
  EXPECT_THAT(r.trace.scale, ElementsAre(k64, k64, k128, k128, k128, k128, k64, k32, k32, k32, k64, k64));
  EXPECT_THAT(r.trace.hysteresis_left, ElementsAre(2, 2, 2, 1, 1, 1, 0, 0, 0, 0, 2, 2));
}

TEST(LossScalerVectors, V4FloorAbortsAtStep24) {
  const ScalerRun r({.growth_interval = 3}, std::string(40, 'O'));
  for (int step = 1; step <= 24; ++step)
    EXPECT_EQ(r.trace.scale[static_cast<std::size_t>(step - 1)], std::max(1.0, std::ldexp(1.0, 16 - step)))
        << step;
  EXPECT_EQ(r.trace.aborted_at, 24);
  EXPECT_EQ(r.state.skips_at_min, 8);
}

TEST(LossScalerVectors, V5SmallFloor) {
  const ScalerRun r({.init = 8, .growth_interval = 3, .max_skips_at_min = 3}, std::string(9, 'O'));
  EXPECT_THAT(r.trace.scale, ElementsAre(4, 2, 1, 1, 1, 1));
  EXPECT_EQ(r.trace.aborted_at, 6);
}

TEST(LossScalerVectors, V6Ceiling) {
  const ScalerRun r({.init = 0x1p23, .growth_interval = 3}, std::string(9, 'G'));
  EXPECT_THAT(r.trace.scale,
              ElementsAre(0x1p23, 0x1p23, 0x1p24, 0x1p24, 0x1p24, 0x1p24, 0x1p24, 0x1p24, 0x1p24));
  EXPECT_THAT(r.trace.good_steps, ElementsAre(1, 2, 0, 1, 2, 0, 1, 2, 0));
}

TEST(LossScalerVectors, V7ForwardKeepsTheScale) {
  const ScalerRun r({.growth_interval = 3}, "GGFGFFFFFG");
  EXPECT_THAT(r.trace.scale, ElementsAreArray(std::vector<float>(9, k64)));
  EXPECT_THAT(r.trace.good_steps, ElementsAre(1, 2, 0, 1, 0, 0, 0, 0, 0));
  EXPECT_EQ(r.trace.aborted_at, 9);
  EXPECT_EQ(r.state.applied, 3);
  EXPECT_EQ(r.state.skipped_forward, 6);
}

TEST(LossScalerVectors, V7ParityMode) {
  const ScalerRun r({.growth_interval = 3, .on_forward_nonfinite = "backoff"}, "GGFGFFFFF");
  EXPECT_THAT(r.trace.scale, ElementsAre(k64, k64, k32, k32, k16, 8192, 4096, 2048, 1024));
}

TEST(LossScalerVectors, V9OddFactors) {
  const ScalerRun r({.init = 1000,
                     .growth_factor = 1.5,
                     .backoff_factor = 0.75,
                     .growth_interval = 3,
                     .allow_non_pow2 = true},
                    "GGGOO");
  EXPECT_THAT(r.trace.scale, ElementsAre(1000, 1000, 1500, 1125, 843.75));
}

// What a checkpoint keeps of the state is its bytes.
StepState round_trip(const StepState& state) {
  std::vector<unsigned char> bytes(sizeof state);
  std::memcpy(bytes.data(), &state, sizeof state);
  StepState copy;
  std::memcpy(&copy, bytes.data(), sizeof copy);
  return copy;
}

TEST(LossScalerVectors, V17ResumeHasTheSameTail) {
  for (const std::int64_t hysteresis : {1, 2}) {
    const LossScaleOptions options{.growth_interval = 3, .hysteresis = hysteresis};
    const ScalerRun whole(options, kEventsA);
    const ScalerRun first(options, std::string_view(kEventsA).substr(0, 6));
    if (hysteresis == 1) {
      EXPECT_EQ(first.state.scale, k64);
      EXPECT_EQ(first.state.good_steps, 2);
    }
    const LossScaler scaler(options, DType::kF16);
    StepState state = round_trip(first.state);
    EXPECT_TRUE(scaler.resume(state, &first.scaler.knobs()).empty());
    const Trace tail = run(scaler, state, "OOGGGG");
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(tail.scale[i], whole.trace.scale[6 + i]);
      EXPECT_EQ(tail.good_steps[i], whole.trace.good_steps[6 + i]);
      EXPECT_EQ(tail.hysteresis_left[i], whole.trace.hysteresis_left[6 + i]);
    }
    EXPECT_EQ(state.applied, whole.state.applied);
    EXPECT_EQ(state.attempted, whole.state.attempted);
    EXPECT_EQ(state.skipped_overflow, whole.state.skipped_overflow);
    EXPECT_EQ(state.last_overflow_step, whole.state.last_overflow_step);
  }
}

TEST(LossScalerVectors, V19InverseIsRoundedOnceFromDouble) {
  const LossScaler scaler({.init = 3, .allow_non_pow2 = true}, DType::kF16);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(scaler.initial_state().inverse), 0x3EAAAAABu);
}

TEST(LossScaler, TheModeFollowsTheComputeDtypeUnlessWritten) {
  EXPECT_EQ(LossScaler({}, DType::kF16).mode(), LossScaleMode::kDynamic);
  EXPECT_EQ(LossScaler({}, DType::kBF16).mode(), LossScaleMode::kOff);
  EXPECT_EQ(LossScaler({}, DType::kF32).initial_state().scale, 1);
  EXPECT_EQ(LossScaler({.mode = LossScaleMode::kDynamic}, DType::kBF16).initial_state().scale, k64);
}

TEST(LossScaler, StaticAndOffNeverMoveButTheirLimitsHold) {
  const std::string events = std::string(5, 'G') + std::string(50, 'O');
  const ScalerRun fixed({.mode = LossScaleMode::kStatic, .init = 128, .growth_interval = 2}, events);
  EXPECT_THAT(fixed.trace.scale, testing::Each(128.0f));
  EXPECT_EQ(fixed.trace.aborted_at, 45);  // 40 skips in a row
  EXPECT_THAT(fixed.trace.abort_text, HasSubstr("precision.loss_scale.mode: dynamic"));
  const ScalerRun off({}, events, DType::kF32);
  EXPECT_THAT(off.trace.scale, testing::Each(1.0f));
  EXPECT_EQ(off.trace.aborted_at, 45);
  EXPECT_THAT(off.trace.abort_text, Not(HasSubstr("bf16")));
}

TEST(LossScaler, HoldGoesOnAtTheFloorUntilTheOtherLimit) {
  const ScalerRun r({.init = 1, .at_floor = FloorPolicy::kHold}, std::string(50, 'O'));
  EXPECT_EQ(r.trace.aborted_at, 40);
}

TEST(LossScaler, AGoodStepForgivesSkips) {
  const ScalerRun r({.max_consecutive_skips = 3}, "OOGOOGOOO");
  EXPECT_EQ(r.trace.aborted_at, 9);
}

TEST(LossScaler, TheAbortSaysWhatSinceWhenWhereAndWhatHelps) {
  const ScalerRun r({.init = 8, .growth_interval = 3, .max_skips_at_min = 3}, "GG" + std::string(9, 'O'));
  EXPECT_EQ(
      r.trace.abort_text,
      "[loss scale] gradients overflow at the smallest loss scale: got 3 such steps in a row at scale 1, "
      "expected finite gradients\n"
      "  since step 3, now step 8: 2 steps applied, 6 skipped by overflow, 0 by the loss\n"
      "  first not finite: backward, layer enc0.conv1\n"
      "  last steps: 7 overflow at 1\n"
      " What helps, most likely first:\n"
      "  1. a smaller learning rate (now 0.01):    optimizer.lr: 0.001\n"
      "  2. BF16, which has FP32's range:    precision.compute: bf16\n"
      "  3. clipping of gradients:    train.clip_norm: 12");
  const ScalerRun forward({}, "FFFFF");
  EXPECT_THAT(forward.trace.abort_text, HasSubstr("the loss is not finite: got NaN or inf 5 steps in a row"));
  EXPECT_THAT(forward.trace.abort_text, HasSubstr("since step 1, now step 5"));
}

std::string config_error(const LossScaleOptions& options) {
  try {
    LossScaler(options, DType::kF16);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    return error.what();
  }
  return "no error";
}

// amp.md 2.1: name, value and rule of each.
TEST(LossScaleOptions, WhatMakesNoScalerIsRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInf = std::numeric_limits<double>::infinity();
  const struct {
    LossScaleOptions options;
    const char *key, *value;
  } rows[] = {{{.init = kNan}, "precision.loss_scale.init", "nan"},
              {{.init = kInf}, "precision.loss_scale.init", "inf"},
              {{.init = 0}, "precision.loss_scale.init", "0"},
              {{.init = -2}, "precision.loss_scale.init", "-2"},
              {{.init = 1000}, "precision.loss_scale.init", "1000"},
              {{.init = 0.5}, "precision.loss_scale.min", "init (0.5)"},
              {{.init = 0x1p25}, "precision.loss_scale.init", "max (16777216)"},
              {{.growth_factor = 1}, "precision.loss_scale.growth_factor", "1"},
              {{.growth_factor = 3}, "precision.loss_scale.growth_factor", "3"},
              {{.backoff_factor = 1}, "precision.loss_scale.backoff_factor", "1"},
              {{.backoff_factor = 0}, "precision.loss_scale.backoff_factor", "0"},
              {{.backoff_factor = 0.3}, "precision.loss_scale.backoff_factor", "0.3"},
              {{.growth_interval = 0}, "precision.loss_scale.growth_interval", "0"},
              {{.hysteresis = 0}, "precision.loss_scale.hysteresis", "0"},
              {{.min = 0}, "precision.loss_scale.min", "0"},
              {{.max = kInf}, "precision.loss_scale.max", "inf"},
              {{.max_skips_at_min = 0}, "precision.loss_scale.max_skips_at_min", "0"}};
  for (const auto& row : rows) {
    const std::string text = config_error(row.options);
    EXPECT_THAT(text, HasSubstr(row.key));
    EXPECT_THAT(text, HasSubstr(row.value));
    EXPECT_THAT(text, HasSubstr("expected"));
  }
}

TEST(LossScaleOptions, AFilesBoolAndFractionAreRefused) {
  for (const char* yaml : {"init: true", "growth_interval: 2.5", "growth_interval: yes", "init: .nan",
                           "init: .inf", "at_floor: pray"}) {
    LossScaleOptions options;
    try {
      parse_options(parse_yaml_text(yaml, "job.yaml"), fields(options));
      ADD_FAILURE() << yaml << " was accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("job.yaml:1:"));
    }
  }
  LossScaleOptions options;
  parse_options(
      parse_yaml_text("mode: off\ngrowth_interval: 1e3\nhysteresis_refill: on_growth\n", "job.yaml"),
      fields(options));
  EXPECT_EQ(options.mode, LossScaleMode::kOff);
  EXPECT_EQ(options.growth_interval, 1000);
}

// amp.md 2.6: values from the checkpoint, knobs from the file, each difference printed.
TEST(LossScalerResume, PrintsEachDifference) {
  const ScalerRun old({.growth_interval = 3, .hysteresis = 4}, "GGO");
  const LossScaler scaler({.init = 1024, .growth_interval = 100, .hysteresis = 2, .max = 32768}, DType::kF16);
  StepState state = old.state;
  EXPECT_THAT(scaler.resume(state, &old.scaler.knobs()),
              ElementsAre("precision.loss_scale.growth_interval: 3 in the checkpoint, 100 from the job file",
                          "precision.loss_scale.hysteresis: 4 in the checkpoint, 2 from the job file",
                          "precision.loss_scale.max: 16777216 in the checkpoint, 32768 from the job file",
                          "loss scale: 65536 in the checkpoint, 32768 here"));
  EXPECT_EQ(state.scale, 32768);
  EXPECT_EQ(state.inverse, 1.0f / 32768);
  EXPECT_EQ(state.hysteresis_left, 2);
  EXPECT_EQ(state.attempted, 3);
}

TEST(LossScalerResume, AcrossModes) {
  const ScalerRun fp16({}, "GGGO");
  StepState state = fp16.state;
  EXPECT_EQ(LossScaler({}, DType::kBF16).resume(state).size(), 1u);
  EXPECT_EQ(state.scale, 1);
  const LossScaler bf16({}, DType::kBF16), again({}, DType::kF16);
  EXPECT_EQ(again.resume(state, &bf16.knobs()).size(), 2u);  // the mode, and the scale that starts at init
  EXPECT_EQ(state.scale, k64);
  EXPECT_EQ(state.applied, 3);
}

TEST(StepStateHelpers, PrepareClearsWhatBelongsToOneStep) {
  StepState state;
  state.event = StepEvent::kForward;
  state.weight_overflow = 1;
  state.clip = 0.5f;
  state.scale = 4;
  prepare_step(state, 0.25);
  EXPECT_EQ(state.event, StepEvent::kGood);
  EXPECT_EQ(state.weight_overflow, 0);
  EXPECT_EQ(state.clip, 1);
  EXPECT_EQ(state.inverse, 0.25f);
  EXPECT_EQ(state.lr, 0.25f);
  check_loss(state, 3);
  EXPECT_EQ(state.event, StepEvent::kGood);
  check_loss(state, std::numeric_limits<double>::quiet_NaN());
  check_loss(state, 3);  // another micro-batch does not undo it
  EXPECT_EQ(state.event, StepEvent::kForward);
}

}  // namespace
}  // namespace tandem

// The loss scale through whole training steps of unet3d: real overflows in every n-th step against the state
// machine on the same list of events, and powers of two that change no bit of the weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/numerics_fixture.h"

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

constexpr std::int64_t kSteps = 60;
constexpr double kLr = 1e-3;
const ScheduleOptions kSchedule{.name = ScheduleKind::kPoly, .warmup = 7};

// Of one step: the rate that it used, and what it left.
struct Line {
  float lr = 0, scale = 0;
  std::int32_t good_steps = 0, hysteresis_left = 0;
  std::int64_t applied = 0, skipped = 0;
  bool operator==(const Line&) const = default;
};
void PrintTo(const Line& l, std::ostream* out) {
  *out << fmt::format("lr {} scale {} good {} hysteresis {} applied {} skipped {}", l.lr, l.scale,
                      l.good_steps, l.hysteresis_left, l.applied, l.skipped);
}

Line line_of(const StepState& s) {
  return {s.lr, s.scale, s.good_steps, s.hysteresis_left, s.applied, s.skipped_overflow};
}

LossScaleOptions interval_of_three(std::int64_t hysteresis, const std::string& refill) {
  return {.growth_interval = 3,
          .hysteresis = hysteresis,
          .hysteresis_refill = refill,
          .max = 0x1p18,  // at larger scales the gradients of good steps overflow
          .max_consecutive_skips = 1000,
          .at_floor = FloorPolicy::kHold};
}

// Trains `kSteps` steps; the loss of every n-th is so large that its FP16 gradients overflow at any scale.
std::vector<Line> train(const LossScaleOptions& scale, std::int64_t n) {
  double loss_weight = 1;
  UNet3d model({.features = {4, 8}}, 1, 2);
  const Criterion criterion = [&](const Outputs& outputs, const Target& target) {
    return dice_ce(outputs.main, target.label, {.ce_weight = loss_weight});
  };
  Trainer trainer({.compute = DType::kF16, .seed = 5}, {.compute = DType::kF16}, model, criterion,
                  {.optimizer = {.name = OptimizerKind::kAdamW, .lr = kLr},
                   .schedule = kSchedule,
                   .loss_scale = scale,
                   .total_steps = kSteps});
  Loader loader(std::make_shared<tests::Noise>(), {.batch_size = 2, .seed = 9});
  std::vector<Line> lines;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const bool overflows = step % n == 0;
    loss_weight = overflows ? 1e9 : 1;
    const StepReport report = trainer.step(loader);
    EXPECT_EQ(report.event, overflows ? StepEvent::kOverflow : StepEvent::kGood)
        << "step " << step << " of n " << n;
    EXPECT_TRUE(std::isfinite(report.loss));
    lines.push_back(line_of(trainer.state()));
  }
  return lines;
}

// The state machine alone, on the same events.
std::vector<Line> reference(const LossScaleOptions& scale, std::int64_t n) {
  const LossScaler scaler(scale, DType::kF16);
  StepState state = scaler.initial_state();
  std::vector<Line> lines;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    state.lr = static_cast<float>(scheduled_lr(kSchedule, kLr, state.applied, kSteps));
    state.event = step % n == 0 ? StepEvent::kOverflow : StepEvent::kGood;
    kernels::scaler_update(state, scaler.knobs());
    lines.push_back(line_of(state));
  }
  return lines;
}

TEST(ScalerStress, OverflowsInEveryNthStepFollowTheStateMachine) {
  for (const auto& [hysteresis, refill] :
       {std::pair<std::int64_t, const char*>{1, "on_good"}, {2, "on_good"}, {2, "on_growth"}})
    for (std::int64_t n = 1; n <= 5; ++n) {
      const LossScaleOptions scale = interval_of_three(hysteresis, refill);
      const std::vector<Line> lines = train(scale, n);
      EXPECT_THAT(lines, ElementsAreArray(reference(scale, n))) << "n " << n << ", hysteresis " << hysteresis;
      EXPECT_EQ(lines.back().applied, kSteps - kSteps / n);
      EXPECT_EQ(lines.back().skipped, kSteps / n);
    }
}

// By hand from amp.md 2.4: four good steps double the scale once (after the third), the fifth halves it.
TEST(ScalerStress, EveryFifthStepByHand) {
  const std::vector<Line> lines = train(interval_of_three(1, "on_good"), 5);
  for (std::size_t cycle = 0; cycle < kSteps / 5; ++cycle) {
    std::vector<float> scale;
    std::vector<std::int32_t> good;
    std::vector<std::int64_t> applied;
    for (std::size_t i = 5 * cycle; i < 5 * cycle + 5; ++i) {
      scale.push_back(lines[i].scale);
      good.push_back(lines[i].good_steps);
      applied.push_back(lines[i].applied - static_cast<std::int64_t>(4 * cycle));
    }
    EXPECT_THAT(scale, ElementsAre(65536, 65536, 131072, 131072, 65536)) << cycle;
    EXPECT_THAT(good, ElementsAre(1, 2, 0, 1, 0)) << cycle;
    EXPECT_THAT(applied, ElementsAre(1, 2, 3, 4, 4)) << cycle;
  }
  // Applied steps before each, in warm-up over 7 and poly over 60: a skipped step has the rate of the next.
  const int applied[] = {0, 1, 2, 3, 4, 4, 5, 6};
  for (std::size_t i = 0; i < std::size(applied); ++i)
    EXPECT_FLOAT_EQ(lines[i].lr,
                    static_cast<float>(kLr * (applied[i] + 1) / 7 * std::pow(1 - applied[i] / 60.0, 0.9)))
        << i;
}

// By hand: two good steps never double, so every third step halves the scale until it stays at 1.
TEST(ScalerStress, EveryThirdStepByHand) {
  const std::vector<Line> lines = train(interval_of_three(1, "on_good"), 3);
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(lines[i].scale, std::max(1.0, std::ldexp(65536.0, -static_cast<int>((i + 1) / 3)))) << i;
}

// N10: with FP32 compute a power of two scales every gradient exactly; accumulation, clipping and AdamW
// included.
TEST(PowerOfTwo, AStaticScaleChangesNoBitOfUnet3d) {
  const auto trained = [](double scale) {
    UNet3d model({.features = {4, 8}}, 1, 2);
    const Criterion criterion = [](const Outputs& outputs, const Target& target) {
      return dice_ce(outputs.main, target.label, {});
    };
    Trainer trainer({.compute = DType::kF32, .seed = 5}, {.compute = DType::kF32}, model, criterion,
                    {.optimizer = {.name = OptimizerKind::kAdamW, .lr = 1e-2, .weight_decay = 1e-2},
                     .loss_scale = {.mode = LossScaleMode::kStatic, .init = scale, .allow_non_pow2 = true},
                     .total_steps = 10,
                     .accumulate = 2,
                     .clip_norm = 0.5});
    Loader loader(std::make_shared<tests::Noise>(), {.batch_size = 2, .seed = 9});
    for (int i = 0; i < 10; ++i) EXPECT_EQ(trainer.step(loader).event, StepEvent::kGood);
    CheckpointContent content;
    trainer.save(content);
    for (NamedTensor& tensor : content.tensors) tensor.tensor = tensor.tensor.clone();
    content.state = {};
    return content;
  };
  const CheckpointContent expected = trained(1);
  for (const double scale : {0x1p10, 0x1p16, 0x1p20}) {
    const auto difference = diff_checkpoints(trained(scale), expected);
    EXPECT_FALSE(difference.has_value()) << scale << ": " << difference->name << " " << difference->text;
  }
  EXPECT_TRUE(diff_checkpoints(trained(3), expected).has_value()) << "3 is no power of two";
}

}  // namespace
}  // namespace tandem

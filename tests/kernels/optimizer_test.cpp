// The optimizers' scalar updates against PyTorch: 20 steps with gradients g(t) = sin(1.7 t) / (1 + w^2), in
// float and in double. The numbers are of tests/kernels/optimizer_reference.py.
#include "core/kernels/optimizer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace tandem {
namespace {

struct Reference {
  OptimizerKind kind;
  OptimizerConstants constants;
  double lr;
  double weight;  // after 20 steps in double
};

#include "tests/kernels/optimizer_reference.inc"

template <class R>
R rmsprop_update(const Reference& reference, R w, R g, std::array<R, 3>& m) {
  const auto step = kernels::rmsprop_step<R>(reference.constants, reference.lr);
  const auto root = [](R x) { return std::sqrt(x); };
  if (reference.constants.centered)
    return step.momentum != 0 ? kernels::rmsprop_update<true, true>(w, g, m[0], m[1], m[2], step, root)
                              : kernels::rmsprop_update<true, false>(w, g, m[0], m[1], m[2], step, root);
  return step.momentum != 0 ? kernels::rmsprop_update<false, true>(w, g, m[0], m[1], m[2], step, root)
                            : kernels::rmsprop_update<false, false>(w, g, m[0], m[1], m[2], step, root);
}

template <class R>
R twenty_steps(const Reference& reference) {
  R w = 1;
  std::array<R, 3> m{};
  for (int t = 1; t <= 20; ++t) {
    const R g = static_cast<R>(std::sin(1.7 * t)) / (1 + w * w);
    if (reference.kind == OptimizerKind::kSgd)
      w = kernels::sgd_update(w, g, m[0], kernels::sgd_step<R>(reference.constants, reference.lr));
    else if (reference.kind == OptimizerKind::kRmsProp)
      w = rmsprop_update(reference, w, g, m);
    else
      w = kernels::adam_update(w, g, m[0], m[1],
                               kernels::adam_step<R>(reference.constants, reference.lr, t,
                                                     reference.kind == OptimizerKind::kAdamW),
                               [](R x) { return std::sqrt(x); });
  }
  return w;
}

TEST(OptimizerKernels, TwentyStepsEqualPyTorch) {
  for (const Reference& reference : kReferences) {
    EXPECT_NEAR(twenty_steps<double>(reference), reference.weight, 1e-13) << static_cast<int>(reference.kind);
    EXPECT_NEAR(twenty_steps<float>(reference), reference.weight, 1e-6) << static_cast<int>(reference.kind);
  }
}

TEST(OptimizerKernels, FactorsAreRoundedFromDouble) {
  const auto step = kernels::adam_step<float>({}, 1e-3, 1, false);
  EXPECT_EQ(step.one_minus_beta2, 0.001f);  // 1 - 0.999f is 0.00099998713
  EXPECT_EQ(step.one_minus_beta1, 0.1f);
  EXPECT_EQ(step.step_size, 0.01f);
}

// Rounding may leave mean of squares - mean^2 below 0; its root must not be NaN.
TEST(OptimizerKernels, CenteredRmsPropBearsAConstantGradient) {
  const OptimizerConstants constants{.rho = 0.5, .centered = true};
  float w = 1, v = 0, a = 0, b = 0;
  for (int i = 0; i < 200; ++i)
    w = kernels::rmsprop_update<true, false>(w, 0.1f, v, a, b, kernels::rmsprop_step<float>(constants, 1e-6),
                                             [](float x) { return std::sqrt(x); });
  EXPECT_TRUE(std::isfinite(w));
}

TEST(OptimizerKernels, ClipToKeepsNanAndBounds) {
  EXPECT_EQ(kernels::clip_to(3.0f, 1.0f), 1.0f);
  EXPECT_EQ(kernels::clip_to(-3.0f, 1.0f), -1.0f);
  EXPECT_EQ(kernels::clip_to(0.5f, 1.0f), 0.5f);
  EXPECT_EQ(kernels::clip_to(3.0f, 0.0f), 3.0f);
  EXPECT_TRUE(std::isnan(kernels::clip_to(std::nanf(""), 1.0f)));
}

// amp.md C23: weights at 0.5, the mean from 1 with decay .9999 for 10,000 steps.
TEST(OptimizerKernels, RunningMeanMovesInFp32) {
  const OptimizerConstants constants{.ema_decay = 0.9999};
  float ema = 1;
  for (int t = 0; t < 10000; ++t) ema += static_cast<float>(kernels::ema_rate(constants, t)) * (0.5f - ema);
  EXPECT_NEAR(ema, 0.683931, 1e-5);
}

TEST(OptimizerKernels, WarmupOfTheRunningMean) {
  const OptimizerConstants warm{.ema_decay = 0.999, .ema_warmup = true};
  EXPECT_DOUBLE_EQ(kernels::ema_rate(warm, 0), 0.9);
  EXPECT_DOUBLE_EQ(kernels::ema_rate(warm, 90), 1 - 0.91);
  EXPECT_DOUBLE_EQ(kernels::ema_rate(warm, 100000), 1 - 0.999);
}

}  // namespace
}  // namespace tandem

// The optimizers' scalar updates against PyTorch: 20 steps with gradients g(t) = sin(1.7 t) / (1 + w^2), in
// float and in double. The numbers are of tests/kernels/optimizer_reference.py.
#include "core/kernels/optimizer.h"

#include <gtest/gtest.h>

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
R twenty_steps(const Reference& reference) {
  R w = 1, m = 0, v = 0;
  for (int t = 1; t <= 20; ++t) {
    const R g = static_cast<R>(std::sin(1.7 * t)) / (1 + w * w);
    if (reference.kind == OptimizerKind::kSgd)
      w = kernels::sgd_update(w, g, m, kernels::sgd_step<R>(reference.constants, reference.lr));
    else
      w = kernels::adam_update(w, g, m, v,
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

}  // namespace
}  // namespace tandem

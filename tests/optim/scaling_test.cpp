// Loss scaling through a tape: accumulation (V10), the FP32 seed (V18), and the proof that a power of two
// changes no bit of the weights (V16).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "core/base/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/loss.h"
#include "layers/linear.h"
#include "tests/optim/training_fixture.h"
#include "tests/refs/ref_file.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using tests::filled;
using tests::Training;

// V10: A = 2, S = 8, micro-gradients 1 and 3: the buffer holds 4 + 12 = 16, unscaled 2.
TEST(LossScaling, V10MicroBatchesAreAddedInFp32) {
  for (const Device device : {kReferenceDevice, kCpuDevice}) {
    Training training({.device = device,
                       .optimizer = {.name = OptimizerKind::kSgd},
                       .loss_scale = {.mode = LossScaleMode::kDynamic, .init = 8}},
                      {{"w", Shape{1}, ParamRegion::kKept, {5}}});
    prepare_step(training.state(), 1);
    const DType wide = training.parameter(0).master().dtype();
    constexpr int kAccumulate = 2;
    for (const double micro_gradient : {1.0, 3.0}) {
      Tape tape({.device = device});
      const Var factor =
          tape.constant(Tensor::from_values(Shape{1}, std::vector{micro_gradient}, wide, device));
      tape.backward(mul(training.parameter(0).on(tape), factor),
                    static_cast<double>(training.state().scale) / kAccumulate);
    }
    EXPECT_EQ(training.parameter(0).gradient().to_values()[0], 16);
    training.finish();
    EXPECT_EQ(training.master(0)[0], 3);
    EXPECT_EQ(training.state().grad_norm, 2);
  }
}

// V18: 65536 is no FP16 number, so the seed is FP32 and a 16-bit loss is refused.
TEST(LossScaling, V18TheSeedIsFp32) {
  Tape tape({});
  const Var x = tape.variable(Tensor::from_values(Shape{1}, std::vector{3.0}, DType::kF32));
  tape.backward(mul(x, tape.constant(Tensor::from_values(Shape{1}, std::vector{1.0}, DType::kF32))), 65536);
  EXPECT_EQ(x.grad().to_values()[0], 65536);
  Tape other({});
  const Var half =
      cast(other.variable(Tensor::from_values(Shape{1}, std::vector{3.0}, DType::kF32)), DType::kF16);
  try {
    other.backward(half, 65536);
    ADD_FAILURE() << "a 16-bit loss was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the loss has a 16-bit dtype: got F16, expected F32"));
  }
}

struct Net : Module {
  Linear fc1, fc2;
  Net() : fc1({.in = 6, .out = 16}), fc2({.in = 16, .out = 3}) {
    add("fc1", fc1);
    add("fc2", fc2);
  }
  Outputs forward(const Var& x) override { return fc2(leaky_relu(fc1(x), 0.01)); }
};

// The bits of all masters after 50 steps with a static scale.
std::vector<std::uint32_t> train(const OptimizerOptions& optimizer_options, double scale, double max_norm) {
  const Context context{.device = kCpuDevice, .compute = DType::kF32, .seed = 5};
  Net net;
  ParamStore store(net.parameters(), context, {DType::kF32});
  Optimizer optimizer(optimizer_options, store);
  const LossScaler scaler({.mode = LossScaleMode::kStatic, .init = scale, .allow_non_pow2 = true}, DType::kF32);
  StepState state = scaler.initial_state();
  for (std::uint32_t step = 0; step < 50; ++step) {
    prepare_step(state, 0.05);
    store.zero_gradients();
    Tape tape(context);
    const Var x = tape.constant(Tensor::from_values(Shape{8, 6}, filled(48, step, 1), DType::kF32));
    std::vector<double> labels = filled(8, 1000 + step, 1);
    for (double& v : labels) v = v < -0.3 ? 0 : v < 0.3 ? 1 : 2;
    const Var y = tape.constant(Tensor::from_values(Shape{8}, labels, DType::kI32));
    const Var loss = cross_entropy(net(x), y);
    check_loss(state, loss.value().to_values()[0]);
    tape.backward(loss, state.scale);
    optimizer.check_gradients(state, max_norm);
    optimizer.step(state);
    scaler.update(state);
  }
  EXPECT_EQ(state.applied, 50);
  std::vector<std::uint32_t> bits;
  for (const ParamRegion region : {ParamRegion::kCast, ParamRegion::kKept})
    for (const double w : store.region(region).master.to_values())
      bits.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(w)));
  return bits;
}

TEST(LossScaling, V16APowerOfTwoChangesNoBit) {
  const OptimizerOptions sgd{
      .name = OptimizerKind::kSgd, .weight_decay = 1e-3, .momentum = 0.9, .nesterov = true};
  const OptimizerOptions adam{.name = OptimizerKind::kAdamW, .weight_decay = 1e-2};
  for (const OptimizerOptions& optimizer : {sgd, adam})
    for (const double max_norm : {0.0, 0.1}) {
      const std::vector<std::uint32_t> expected = train(optimizer, 1, max_norm);
      for (const double scale : {0x1p10, 0x1p16, 0x1p20})
        EXPECT_EQ(train(optimizer, scale, max_norm), expected) << scale;
    }
  // The proof would be empty if scales were not used: 3 is no power of two.
  EXPECT_NE(train(sgd, 3, 0), train(sgd, 1, 0));
}

}  // namespace
}  // namespace tandem

// The tape: recording, the reverse walk, accumulation, and what it keeps alive.
#include "core/autograd/tape.h"

#include <gtest/gtest.h>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/linear.h"

namespace tandem {
namespace {

using Values = std::vector<double>;

const Context kReference{.device = kReferenceDevice, .compute = DType::kF64};

Tensor tensor(const Shape& shape, const Values& values) {
  return Tensor::from_values(shape, values, DType::kF64, kReferenceDevice);
}

TEST(Tape, DiamondAddsBothPaths) {
  Tape tape(kReference);
  const Var x = tape.variable(tensor({1, 2}, {3, -5}));
  const Var square = mul(x, x);
  tape.backward(weighted_sum(add(square, x), Values{1, 1}));
  EXPECT_EQ(x.grad().to_values(), (Values{7, -9}));
}

// add hands one tensor to both inputs: a later sum into one must not change the other.
TEST(Tape, SharedGradientIsNotWrittenInPlace) {
  Tape tape(kReference);
  const Var x = tape.variable(tensor({1, 1}, {2})), y = tape.variable(tensor({1, 1}, {3}));
  const Var a = mul(x, x), b = mul(y, y);
  const Var sum = add(a, b);
  tape.backward(weighted_sum(add(sum, a), Values{1}));  // 2 a + b
  EXPECT_EQ(x.grad().to_values(), (Values{8}));
  EXPECT_EQ(y.grad().to_values(), (Values{6}));
}

TEST(Tape, SeedScalesGradientsAndNotTheLoss) {
  Tape tape(kReference);
  const Var x = tape.variable(tensor({1, 1}, {3}));
  const Var loss = weighted_sum(mul(x, x), Values{1});
  tape.backward(loss, 65536);
  EXPECT_EQ(loss.value().to_values(), (Values{9}));
  EXPECT_EQ(x.grad().to_values(), (Values{6 * 65536}));
}

TEST(Tape, ParameterAddsToItsBuffer) {
  const Tensor gradient = tensor({1, 2}, {100, 200});
  Tape tape(kReference);
  const Var w = tape.parameter(tensor({1, 2}, {1, 2}), gradient);
  tape.backward(weighted_sum(mul(w, w), Values{1, 1}));
  EXPECT_EQ(gradient.to_values(), (Values{102, 204}));
}

TEST(Tape, LeafMayBeTheLoss) {
  Tape tape(kReference);
  const Var x = tape.variable(tensor({1}, {4}));
  tape.backward(x, 3);
  EXPECT_EQ(x.grad().to_values(), (Values{3}));
}

TEST(Tape, GradientOf16BitLeafIsFp32) {
  Tape tape({.device = kCpuDevice});
  const Var x = tape.variable(Tensor::from_values(Shape{1, 1}, Values{0.5}, DType::kF16));
  tape.backward(add(weighted_sum(x, Values{5}), weighted_sum(x, Values{5})), 8192);
  EXPECT_EQ(x.grad().dtype(), DType::kF32);
  EXPECT_EQ(x.grad().to_values(), (Values{81920})) << "twice 40960: more than FP16 holds";
}

TEST(Tape, ConstantsAndUnreachedBranchesGetNoGradient) {
  Tape tape(kReference);
  const Var x = tape.variable(tensor({1, 1}, {2})), y = tape.variable(tensor({1, 1}, {3}));
  const Var c = tape.constant(tensor({1, 1}, {5}));
  const Var unused = mul(y, y);
  tape.backward(weighted_sum(mul(x, c), Values{1}));
  EXPECT_EQ(x.grad().to_values(), (Values{5}));
  EXPECT_FALSE(y.grad().defined());
  EXPECT_FALSE(c.grad().defined());
  EXPECT_FALSE(c.requires_grad());
  EXPECT_TRUE(unused.requires_grad());
}

TEST(Tape, EvaluationRecordsNothing) {
  Tape tape(kReference, false);
  const Var x = tape.variable(tensor({1, 1}, {2}));
  EXPECT_FALSE(x.requires_grad());
  EXPECT_FALSE(mul(x, x).requires_grad());
  EXPECT_THROW(tape.backward(weighted_sum(x, Values{1})), Error);
}

// relu saves its output only: the input's memory is free as soon as the caller lets go.
TEST(Tape, KeepsOnlyWhatBackwardReads) {
  Tape tape(kReference);
  const Var x = tape.variable(tensor({1, 1}, {2}));
  std::weak_ptr<Storage> inner, output;
  Var y;
  {
    const Var z = add(x, x);
    inner = z.value().storage();
    y = relu(z);
    output = y.value().storage();
  }
  EXPECT_TRUE(inner.expired());
  const Var loss = weighted_sum(y, Values{1});
  y = Var();
  EXPECT_FALSE(output.expired());
  tape.backward(loss);
  EXPECT_TRUE(output.expired()) << "what a closure holds is freed when it has run";
  EXPECT_EQ(x.grad().to_values(), (Values{2}));
}

// A weight that is computed (here: a product) gets its gradient through the FP32 sink of a non-leaf.
TEST(Tape, ComputedWeights) {
  Tape tape(kReference);
  const Var w = tape.variable(tensor({1, 2}, {2, 3}));
  const Var x = tape.constant(tensor({1, 2}, {10, 100}));
  tape.backward(weighted_sum(linear(x, mul(w, w), {}), Values{1}));
  EXPECT_EQ(w.grad().to_values(), (Values{40, 600}));
}

TEST(TapeErrors, NonScalarLoss) {
  Tape tape(kReference);
  const Var x = tape.variable(tensor({1, 2}, {1, 2}));
  try {
    tape.backward(mul(x, x));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.text(), "[backward] the loss is not a scalar: got F64 [1, 2], expected one element");
  }
}

TEST(TapeErrors, SecondBackward) {
  Tape tape(kReference);
  const Var x = tape.variable(tensor({1, 1}, {2}));
  const Var loss = weighted_sum(mul(x, x), Values{1});
  tape.backward(loss);
  EXPECT_THROW(tape.backward(loss), Error);
  EXPECT_EQ(x.grad().to_values(), (Values{4}));
}

TEST(TapeErrors, HalfLoss) {
  Tape tape({.device = kCpuDevice});
  const Var x = tape.variable(Tensor::zeros(Shape{1}, DType::kF16));
  try {
    tape.backward(x);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.text(), "[backward] the loss has a 16-bit dtype: got F16, expected F32");
  }
}

TEST(TapeErrors, ValueOnAnotherDevice) {
  Tape tape(kReference);
  try {
    tape.constant(Tensor::zeros(Shape{2, 3}, DType::kF32));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.text(), "[tape] a value on another device: got F32 [2, 3] on cpu, expected reference");
    EXPECT_EQ(error.kind(), ErrorKind::kDevice);
  }
}

TEST(TapeErrors, BackwardNamesTheModule) {
  Tape tape(kReference);
  const Var x = tape.variable(tensor({1, 1}, {1}));
  tape.enter_module("enc0");
  tape.enter_module("conv1");
  const Var y = tape.record("broken", tensor({1}, {1}), {x},
                            [](const Tensor&) { fail(ErrorKind::kShape, "[broken] on purpose"); });
  tape.leave_module();
  tape.leave_module();
  try {
    tape.backward(y);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[broken] on purpose\n  (module enc0.conv1).");
  }
}

TEST(TapeErrors, GradientOfAnotherShape) {
  Tape tape(kReference);
  const Var x = tape.variable(tensor({1, 2}, {1, 2}));
  const Var y = tape.record("wrong", tensor({1}, {1}), {x}, [x](const Tensor& dy) { x.accumulate(dy); });
  EXPECT_THROW(tape.backward(y), Error);
}

TEST(TapeObserver, GradientsInOrderOfExecution) {
  Tape tape(kReference);
  std::vector<std::string> seen;
  tape.observe_gradients([&](const GradientEvent& e) {
    std::string line = std::string(e.op) + (e.is_leaf ? " leaf" : "") + ":";
    for (const double value : e.gradient.to_values()) line += " " + std::to_string(static_cast<int>(value));
    seen.push_back(line);
  });
  const Var x = tape.variable(tensor({1, 1}, {3}));
  const Var y = mul(x, x);  // dy/dx = 6
  const Var z = mul(y, y);  // dz/dy = 18
  tape.backward(weighted_sum(z, Values{1}));
  // Both factors of mul(y, y) are y: two parts of 9, and their sum.
  ASSERT_EQ(seen.size(), 6U);
  EXPECT_EQ(seen[0], "weighted_sum: 1");
  EXPECT_EQ(seen[1], "mul: 9");
  EXPECT_EQ(seen[2], "mul: 9");
  EXPECT_EQ(seen[3], "mul: 18");
  EXPECT_EQ(seen[5], "mul leaf: 108");
}

}  // namespace
}  // namespace tandem

// Normalisation layers: running statistics that wait for the step, and numbers of FP16 batches.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "layers/norm.h"

namespace tandem {
namespace {

using Values = std::vector<double>;

const StepState kGood{.event = StepEvent::kGood}, kOverflow{.event = StepEvent::kOverflow},
    kForward{.event = StepEvent::kForward};

struct Net {
  explicit Net(std::int64_t channels = 2, double momentum = 0.1)
      : norm({.channels = channels}, momentum), store(norm.parameters(), {}, {}) {}

  Var run(const Shape& shape, const Values& values, bool training = true, bool record = true,
          DType dtype = DType::kF32) {
    tape = std::make_unique<Tape>(Context{.training = training}, record);
    return norm(tape->constant(Tensor::from_values(shape, values, dtype)));
  }
  Values buffer(std::string_view name) {
    for (const NamedBuffer& b : norm.buffers())
      if (b.name == name) return b.buffer->on(kCpuDevice).to_values();
    return {};
  }

  BatchNorm norm;
  ParamStore store;
  std::unique_ptr<Tape> tape;
};

const Shape kShape{2, 2, 2};
// Channel 0: 1 2 3 4 (mean 2.5, unbiased variance 5/3); channel 1: 0 0 0 4 (mean 1, unbiased variance 4).
const Values kBatch{1, 2, 0, 0, 3, 4, 0, 4};

TEST(BatchNorm, BuffersHavePyTorchsNamesAndStart) {
  Net net;
  std::vector<std::string> names;
  for (const NamedBuffer& b : net.norm.buffers()) names.push_back(b.name);
  EXPECT_EQ(names, (std::vector<std::string>{"running_mean", "running_var", "num_batches_tracked"}));
  EXPECT_EQ(net.buffer("running_mean"), (Values{0, 0}));
  EXPECT_EQ(net.buffer("running_var"), (Values{1, 1}));
  EXPECT_EQ(net.buffer("num_batches_tracked"), (Values{0}));
}

// running = 0.9 running + 0.1 batch, the variance unbiased: PyTorch's rule.
TEST(BatchNorm, StatisticsArePendingUntilTheStepIsGood) {
  Net net;
  net.run(kShape, kBatch);
  EXPECT_EQ(net.buffer("running_mean"), (Values{0, 0})) << "before the step is known";
  net.norm.commit(kGood);
  EXPECT_NEAR(net.buffer("running_mean")[0], 0.25, 1e-7);
  EXPECT_NEAR(net.buffer("running_mean")[1], 0.1, 1e-7);
  EXPECT_NEAR(net.buffer("running_var")[0], 0.9 + 0.1 * 5 / 3, 1e-7);
  EXPECT_NEAR(net.buffer("running_var")[1], 0.9 + 0.1 * 4, 1e-7);
  EXPECT_EQ(net.buffer("num_batches_tracked"), (Values{1}));
  net.norm.commit(kGood);
  EXPECT_EQ(net.buffer("num_batches_tracked"), (Values{1})) << "nothing is pending any more";
}

// amp.md C7: a step with an infinity leaves the buffers' bits alone, and evaluation goes on.
TEST(BatchNorm, SkippedStepsLeaveNoTrace) {
  Net net;
  net.run(kShape, kBatch);
  net.norm.commit(kGood);
  const Values mean = net.buffer("running_mean"), variance = net.buffer("running_var");
  Values bad = kBatch;
  bad[3] = std::numeric_limits<double>::infinity();
  for (const StepState& state : {kOverflow, kForward}) {
    net.run(kShape, bad);
    net.norm.commit(state);
    EXPECT_EQ(net.buffer("running_mean"), mean);
    EXPECT_EQ(net.buffer("running_var"), variance);
  }
  net.norm.commit(kGood);
  EXPECT_EQ(net.buffer("running_var"), variance) << "what was dropped does not come back";
  for (const double y : net.run(kShape, kBatch, false).value().to_values()) EXPECT_TRUE(std::isfinite(y));
}

// Micro-batches of one step are folded in, in order.
TEST(BatchNorm, AccumulatedBatchesCountEach) {
  Net net;
  net.run(kShape, kBatch);
  net.run(kShape, Values(8, 6));
  net.norm.commit(kGood);
  EXPECT_NEAR(net.buffer("running_mean")[0], 0.9 * 0.25 + 0.1 * 6, 1e-6);
  EXPECT_EQ(net.buffer("num_batches_tracked"), (Values{2}));
}

TEST(BatchNorm, OnlyRecordedTrainingCounts) {
  Net net;
  net.run(kShape, kBatch, true, false);
  net.run(kShape, kBatch, false, false);
  net.norm.commit(kGood);
  EXPECT_EQ(net.buffer("num_batches_tracked"), (Values{0}));
}

TEST(BatchNorm, EvaluationUsesTheRunningStatistics) {
  Net net(2, 1);  // momentum 1: running = batch
  net.run(kShape, kBatch);
  net.norm.commit(kGood);
  const Values y = net.run({1, 2, 1}, {4, 1}, false).value().to_values();
  EXPECT_NEAR(y[0], 1.5 / std::sqrt(5.0 / 3 + 1e-5), 1e-6);
  EXPECT_EQ(y[1], 0);
}

// amp.md C34: n / (n - 1) for n = 2,097,152 is 1.00000048, in FP32 of an FP16 batch.
TEST(BatchNorm, CountsAreNotHalfs) {
  const std::int64_t n = 128 * 128 * 128;
  Net net(1, 1);
  Values x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 1 : -1;
  net.run({1, 1, 128, 128, 128}, x, true, true, DType::kF16);
  net.norm.commit(kGood);
  EXPECT_EQ(net.buffer("running_mean")[0], 0);
  EXPECT_NEAR(net.buffer("running_var")[0], 1.00000048, 1e-8);
}

// amp.md C8: 2^17 gradients of 1 sum to 131072, beyond FP16; 3.2: the variance of +-512 is 262144.
TEST(BatchNorm, SumsOfFp16BatchesAreFp32) {
  const std::int64_t n = 1 << 17;
  for (const std::int64_t groups : {0, 1, 2}) {  // 0: batch norm
    Tape tape(Context{});
    Values x(static_cast<std::size_t>(2 * n));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 512 : -512;
    const auto kept = [&](double v) {
      return tape.variable(Tensor::from_values(Shape{2}, Values{v, v}, DType::kF32));
    };
    const Var scale = kept(1), shift = kept(0);
    const Var in = tape.variable(Tensor::from_values(Shape{1, 2, n}, x, DType::kF16));
    const Var y = groups == 0 ? batch_norm(in, scale, shift) : group_norm(in, scale, shift, groups);
    EXPECT_EQ(y.value().to_values()[0], 1) << groups;
    tape.backward(weighted_sum(y, Values(x.size(), 1)));
    EXPECT_EQ(shift.grad().to_values(), (Values{131072, 131072})) << groups;
    for (const double dx : in.grad().to_values()) ASSERT_NEAR(dx, 0, 1e-6);
  }
}

TEST(NormLayers, WrongOptionsAreRefused) {
  const auto error = [](const std::function<void()>& make) {
    try {
      make();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error([] { GroupNorm({.channels = 6}, 4); }),
            "[group_norm] groups: got 4, expected a divisor of 6 channels.");
  EXPECT_EQ(error([] { LayerNorm({.channels = 0}); }),
            "[layer_norm] no channels: got 0, expected 1 or more.");
  EXPECT_EQ(error([] { BatchNorm({.channels = 1}, 1.5); }),
            "[batch_norm] momentum: got 1.5, expected 0 to 1.");
}

TEST(NormLayers, WordsOfAJobFile) {
  EXPECT_EQ(parse_norm("instance")->kind, NormSpec::Kind::kInstance);
  EXPECT_EQ(parse_norm("batch")->kind, NormSpec::Kind::kBatch);
  EXPECT_EQ(parse_norm("none")->kind, NormSpec::Kind::kNone);
  EXPECT_EQ(parse_norm("group:8")->groups, 8);
  for (const char* wrong :
       {"", "group", "group:", "group:0", "group:-2", "group:2.5", "group:nan", "layer", "Batch"})
    EXPECT_FALSE(parse_norm(wrong).has_value()) << wrong;
}

}  // namespace
}  // namespace tandem

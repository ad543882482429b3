// The gradient check and the fused optimizer pass at every instruction-set level: amp.md's V8, V11-V13, V16,
// nnU-Net's Nesterov vector, exact skips.
#include <limits>

#include "tests/cpu/loops_fixture.h"

namespace tandem::loops_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class LoopsStep : public LoopsTest {};

StepState scaled(float scale, float lr) {
  StepState state;
  state.scale = scale;
  state.inverse = inverse_scale(scale);
  state.lr = lr;
  return state;
}

Tensor zeros(std::int64_t n) {
  return make(Shape{n}, DType::kF32, std::vector<double>(static_cast<std::size_t>(n), 0.0));
}

// One attempted step of amp.md 2.3 with gradient `g` (true, unscaled).
void attempt(const CpuLoops& loops, OptimizerArgs& args, StepState& state, const std::vector<double>& g,
             double max_norm = 0) {
  std::vector<double> scaled_gradient = g;
  for (double& v : scaled_gradient) v *= state.scale;
  fill(args.gradient, scaled_gradient);
  GradientCheck check;
  loops.gradient_check(args.gradient, state, check);
  state.event = check.nonfinite > 0 ? StepEvent::kOverflow : StepEvent::kGood;
  state.grad_norm = std::sqrt(check.sum_of_squares) * static_cast<double>(state.inverse);
  state.clip = clip_factor(state.grad_norm, max_norm);
  loops.optimizer_step(args, state);
  kernels::scaler_update(state, {.dynamic = 1});
}

OptimizerArgs one_parameter(OptimizerKind kind, const OptimizerConstants& constants) {
  OptimizerArgs args{.kind = kind, .constants = constants};
  args.master = make(Shape{1}, DType::kF32, {1.0});
  args.gradient = zeros(1);
  args.moment1 = zeros(1);
  if (kind != OptimizerKind::kSgd) args.moment2 = zeros(1);
  return args;
}

TEST_P(LoopsStep, V12SkippedSgdStepChangesNothing) {
  OptimizerArgs args = one_parameter(OptimizerKind::kSgd, {.momentum = 0.9});
  StepState state = scaled(65536, 0.1f);
  const double p[] = {0.9, 0.9, 0.71}, v[] = {1, 1, 1.9};
  const double g[] = {1, kInfinity, 1};
  for (int i = 0; i < 3; ++i) {
    attempt(loops(), args, state, {g[i]});
    EXPECT_EQ(read(args.moment1)[0], static_cast<float>(v[i])) << i;
    EXPECT_FLOAT_EQ(static_cast<float>(read(args.master)[0]), static_cast<float>(p[i])) << i;
  }
  EXPECT_EQ(state.applied, 2);
  EXPECT_EQ(state.skipped_overflow, 1);
  EXPECT_EQ(state.scale, 32768);
}

TEST_P(LoopsStep, V13SkippedAdamStepDoesNotCount) {
  for (const OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    OptimizerArgs args = one_parameter(kind, {});
    StepState state = scaled(65536, 1e-3f);
    attempt(loops(), args, state, {1});
    EXPECT_NEAR(read(args.master)[0], 0.99900000001, 6e-8);
    const double m = read(args.moment1)[0], v = read(args.moment2)[0], p = read(args.master)[0];
    attempt(loops(), args, state, {kInfinity});
    EXPECT_EQ(read(args.master)[0], p);
    EXPECT_EQ(read(args.moment1)[0], m);
    EXPECT_EQ(read(args.moment2)[0], v);
    attempt(loops(), args, state, {1});
    EXPECT_NEAR(read(args.master)[0], 0.99800000002, 6e-8);  // .99814154 if the skipped step had counted
  }
}

TEST_P(LoopsStep, V8ScaleIsLatchedForTheStep) {
  OptimizerArgs args = one_parameter(OptimizerKind::kSgd, {});
  args.moment1 = Tensor();
  StepState state = scaled(4, 1);
  fill(args.master, {0.0});
  for (const float scale : {4.0f, 8.0f, 16.0f}) {
    EXPECT_EQ(state.scale, scale);
    fill(args.gradient, {static_cast<double>(scale)});
    const double before = read(args.master)[0];
    loops().optimizer_step(args, state);
    EXPECT_EQ(before - read(args.master)[0], 1);
    kernels::scaler_update(state, {.dynamic = 1, .growth_interval = 1});
  }
}

TEST_P(LoopsStep, V11ClipAfterUnscaling) {
  OptimizerArgs args = one_parameter(OptimizerKind::kSgd, {});
  args.master = zeros(2);
  args.gradient = zeros(2);
  args.moment1 = Tensor();
  StepState state = scaled(1024, 1);
  attempt(loops(), args, state, {3, 4}, 1);
  EXPECT_EQ(state.grad_norm, 5);
  EXPECT_NEAR(read(args.master)[0], -0.59999988, 6e-8);
  EXPECT_NEAR(read(args.master)[1], -0.79999984, 6e-8);
}

// medical.md 2.3: w = 1, g = 2w + .01w, lr .1, momentum .9, Nesterov.
TEST_P(LoopsStep, NesterovVector) {
  OptimizerArgs args =
      one_parameter(OptimizerKind::kSgd, {.weight_decay = 0.01, .momentum = 0.9, .nesterov = true});
  StepState state = scaled(1, 0.1f);
  const double w[] = {.6181, .21923761, -.1116510943}, v[] = {2.01, 3.051381, 3.1869104961};
  for (int i = 0; i < 3; ++i) {
    attempt(loops(), args, state, {2 * read(args.master)[0]});
    EXPECT_NEAR(read(args.master)[0], w[i], 2e-7);
    EXPECT_NEAR(read(args.moment1)[0], v[i], 5e-7);
  }
}

// V16: with FP32 compute any power of two as scale gives the same bits.
TEST_P(LoopsStep, V16PowersOfTwoGiveTheSameBits) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    std::vector<double> first;
    for (const float scale : {1.0f, 1024.0f, 65536.0f, 1048576.0f}) {
      OptimizerArgs args{.kind = kind, .constants = {.weight_decay = 1e-2, .momentum = 0.9}};
      args.master = make(Shape{37}, DType::kF32, random_values(37, 61));
      args.gradient = zeros(37);
      args.moment1 = zeros(37);
      args.moment2 = zeros(37);
      StepState state = scaled(scale, 0.01f);
      for (unsigned step = 0; step < 50; ++step) {
        Tensor g = make(Shape{37}, DType::kF32, random_values(37, 62 + step));
        attempt(loops(), args, state, read(g), 1.5);
      }
      if (first.empty()) first = read(args.master);
      EXPECT_EQ(read(args.master), first) << scale;
    }
  }
}

// amp.md C22: eps acts in FP32: no gradient and no moments give no update, not 0/0. C32: decay after
// unscaling.
TEST_P(LoopsStep, ZeroGradientAndDecay) {
  OptimizerArgs adam = one_parameter(OptimizerKind::kAdam, {});
  StepState state = scaled(65536, 1e-3f);
  attempt(loops(), adam, state, {0});
  EXPECT_EQ(read(adam.master)[0], 1);
  OptimizerArgs sgd = one_parameter(OptimizerKind::kSgd, {.weight_decay = 0.1});
  fill(sgd.master, {2.0});
  state = scaled(1024, 1);
  attempt(loops(), sgd, state, {1});
  EXPECT_FLOAT_EQ(static_cast<float>(read(sgd.master)[0]), 2.0f - 1.2f);
}

TEST_P(LoopsStep, CopyFollowsTheMasterAndReportsOverflow) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const std::int64_t n = 5000;
    OptimizerArgs args{.kind = OptimizerKind::kSgd};
    args.master = make(Shape{n}, DType::kF32, random_values(n, 63));
    args.gradient = make(Shape{n}, DType::kF32, random_values(n, 64));
    args.copy = make(Shape{n}, dtype);
    StepState state = scaled(1, 0.1f);
    loops().optimizer_step(args, state);
    expect_near(args.copy, read(args.master), 0, "copy");
    EXPECT_EQ(state.weight_overflow, 0);
    const double huge = dtype == DType::kF16 ? 65520 : 3.4e38;
    args.master.data<float>()[n - 1] = static_cast<float>(huge);
    args.gradient.data<float>()[n - 1] = 0;
    loops().optimizer_step(args, state);
    EXPECT_EQ(state.weight_overflow, 1) << name(dtype);
    EXPECT_EQ(load(args.copy, n - 1), kInfinity);
  }
}

TEST_P(LoopsStep, NothingHappensUnlessTheEventIsGood) {
  for (const StepEvent event : {StepEvent::kOverflow, StepEvent::kForward}) {
    const std::int64_t n = 40000;
    OptimizerArgs args{.kind = OptimizerKind::kAdam};
    for (Tensor* t : {&args.master, &args.gradient, &args.moment1, &args.moment2})
      *t = make(Shape{n}, DType::kF32, random_values(n, 65));
    args.copy = make(Shape{n}, DType::kF16, random_values(n, 66));
    const Tensor before[] = {args.master.clone(), args.moment1.clone(), args.moment2.clone(),
                             args.copy.clone()};
    StepState state = scaled(1024, 0.1f);
    state.event = event;
    loops().optimizer_step(args, state);
    expect_same_bits(args.master, before[0], "master");
    expect_same_bits(args.moment1, before[1], "moment1");
    expect_same_bits(args.moment2, before[2], "moment2");
    expect_same_bits(args.copy, before[3], "copy");
  }
}

// Every kind with parts, clip by value, and a running mean.
OptimizerArgs step_args(OptimizerKind kind, std::int64_t n) {
  OptimizerArgs args{.kind = kind,
                     .constants = {.weight_decay = 1e-2,
                                   .momentum = 0.9,
                                   .nesterov = true,
                                   .centered = true,
                                   .clip_value = 0.25,
                                   .ema_decay = 0.9},
                     .parts = {{n / 3 + 1, 0, 0.5}, {n / 2, 1e-2, 1}, {n, 1e-3, 2}}};
  args.master = make(Shape{n}, DType::kF32, random_values(n, 67));
  args.gradient = make(Shape{n}, DType::kF32, random_values(n, 68));
  args.ema = make(Shape{n}, DType::kF32, random_values(n, 72));
  args.moment1 = make(Shape{n}, DType::kF32, random_values(n, 69, 3, 0.3));
  if (kind == OptimizerKind::kSgd) return args;
  // centered: the mean of squares is above the square of the mean
  args.moment2 =
      make(Shape{n}, DType::kF32,
           kind == OptimizerKind::kRmsProp ? random_values(n, 70, 0, 0.3) : random_values(n, 70, 3, 0.3));
  if (kind == OptimizerKind::kRmsProp) args.moment3 = make(Shape{n}, DType::kF32, random_values(n, 73));
  return args;
}

// A copy in double, where the tensor is there.
Tensor exact_or_none(const Tensor& tensor) { return tensor.defined() ? exact(tensor) : Tensor(); }

TEST_P(LoopsStep, UpdatesMatchTheReferenceForAnyNumberOfThreads) {
  const auto reference = make_reference_backend();
  const std::int64_t n = 100003;
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW, OptimizerKind::kRmsProp}) {
    std::vector<Tensor> results[2];
    for (const int threads : {1, 2}) {
      set_compute_threads(threads);
      const OptimizerArgs args = step_args(kind, n);
      OptimizerArgs doubles = args;
      for (Tensor OptimizerArgs::*tensor :
           {&OptimizerArgs::master, &OptimizerArgs::gradient, &OptimizerArgs::moment1,
            &OptimizerArgs::moment2, &OptimizerArgs::moment3, &OptimizerArgs::ema})
        doubles.*tensor = exact_or_none(args.*tensor);
      StepState state = scaled(8, 0.01f), same = state;
      state.applied = same.applied = 4;
      loops().optimizer_step(args, state);
      reference->optimizer_step(doubles, same);
      for (Tensor OptimizerArgs::*tensor :
           {&OptimizerArgs::master, &OptimizerArgs::moment1, &OptimizerArgs::moment2, &OptimizerArgs::moment3,
            &OptimizerArgs::ema}) {
        if (!(args.*tensor).defined()) continue;
        expect_near(args.*tensor, read(doubles.*tensor), 4e-7,
                    "kind " + std::to_string(static_cast<int>(kind)));
        results[threads - 1].push_back(args.*tensor);
      }
    }
    for (std::size_t i = 0; i < results[0].size(); ++i)
      expect_same_bits(results[0][i], results[1][i], "state");
  }
}

TEST_P(LoopsStep, CheckCountsEveryNonFiniteValue) {
  for (const std::int64_t n : {1, 3, 17, 1000, 100003}) {
    const Tensor g = make(Shape{n}, DType::kF32, random_values(n, 71));
    const StepState state = scaled(1024, 0);
    GradientCheck clean, dirty;
    loops().gradient_check(g, state, clean);
    double squares = 0;
    for (const double v : read(g)) squares += v * v;
    EXPECT_EQ(clean.nonfinite, 0);
    EXPECT_NEAR(clean.sum_of_squares, squares, 1e-13 * squares);
    std::int64_t planted = 0;
    for (std::int64_t i = 0; i < n; i += 1 + n / 7, ++planted)
      store(g, i, planted % 3 == 0 ? std::nan("") : planted % 3 == 1 ? kInfinity : -kInfinity);
    loops().gradient_check(g, state, dirty);
    EXPECT_EQ(dirty.nonfinite, planted) << n;
  }
}

// Squares beyond float (|g| > 1.8447e19) are finite; below scale 1 a value that overflows when unscaled
// counts.
TEST_P(LoopsStep, CheckAtTheEdges) {
  const Tensor g = make(Shape{3}, DType::kF32, {3e38, 1e20, 0});
  GradientCheck check, small;
  loops().gradient_check(g, scaled(1024, 0), check);
  EXPECT_EQ(check.nonfinite, 0);
  EXPECT_NEAR(check.sum_of_squares, 9e76, 1e70);
  loops().gradient_check(g, scaled(0.5f, 0), small);
  EXPECT_EQ(small.nonfinite, 1);
  loops().gradient_check(make(Shape{0}, DType::kF32), scaled(1, 0), small);
  EXPECT_EQ(small.nonfinite, 1);  // adds, and an empty gradient is finite
}

TEST_P(LoopsStep, CheckHasTheSameBitsForAnyNumberOfThreads) {
  const Tensor g = make(Shape{300001}, DType::kF32, random_values(300001, 72));
  double sums[2];
  for (const int threads : {1, 2}) {
    set_compute_threads(threads);
    GradientCheck check;
    loops().gradient_check(g, scaled(1, 0), check);
    sums[threads - 1] = check.sum_of_squares;
  }
  EXPECT_EQ(sums[0], sums[1]);
}

TD_FOR_EACH_LEVEL(LoopsStep);

}  // namespace
}  // namespace tandem::loops_test

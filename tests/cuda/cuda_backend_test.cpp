// What the op table does not reach of the CUDA backend: the gradient check, the optimizer's pass, pitched
// operands, reductions over many blocks.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/cuda/device_tensors.h"

namespace tandem::testing {
namespace {

StepState scaled(float scale, float lr) {
  StepState state;
  state.scale = scale;
  state.inverse = inverse_scale(scale);
  state.lr = lr;
  return state;
}

// Every kind with parts, clip by value, a copy and a running mean.
OptimizerArgs step_args(OptimizerKind kind, const OptimizerConstants& constants, std::int64_t n) {
  OptimizerArgs args{.kind = kind, .constants = constants};
  args.parts = {{n / 3 + 1, 0, 0.5}, {n / 2, 1e-2, 1}, {n, 1e-3, 2}};
  args.master = on_device({n}, random_numbers(n, 1));
  args.gradient = on_device({n}, random_numbers(n, 2, -8, 8));
  args.ema = on_device({n}, random_numbers(n, 3));
  args.copy = Tensor(Shape{n}, DType::kF16, emulated_device());
  args.moment1 = on_device({n}, random_numbers(n, 4, 1, 2));
  args.moment2 = on_device({n}, random_numbers(n, 5, 0.1, 0.9));
  args.moment3 = on_device({n}, random_numbers(n, 6));
  return args;
}

TEST(CudaOptimizer, EqualsTheReference) {
  const std::int64_t n = 1003;
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW, OptimizerKind::kRmsProp})
    for (const double momentum : {0.0, 0.9})
      for (const bool centered : {false, true}) {
        const OptimizerArgs args = step_args(kind,
                                             {.weight_decay = 1e-2,
                                              .momentum = momentum,
                                              .nesterov = true,
                                              .centered = centered,
                                              .clip_value = 0.25,
                                              .ema_decay = 0.9},
                                             n);
        OptimizerArgs doubles = args;
        doubles.copy = Tensor(Shape{n}, DType::kF16, kReferenceDevice);
        constexpr Tensor OptimizerArgs::*kBuffers[] = {&OptimizerArgs::master,  &OptimizerArgs::gradient,
                                                       &OptimizerArgs::moment1, &OptimizerArgs::moment2,
                                                       &OptimizerArgs::moment3, &OptimizerArgs::ema};
        for (const auto buffer : kBuffers) doubles.*buffer = exact(args.*buffer);
        StepState state = scaled(8, 0.01f), same = state;
        state.applied = same.applied = 4;
        state.clip = same.clip = 0.5f;
        cuda_backend().optimizer_step(args, state);
        reference().optimizer_step(doubles, same);
        const std::string where = std::to_string(static_cast<int>(kind)) + (centered ? " centered" : "");
        for (const auto buffer : kBuffers) expect_near(args.*buffer, doubles.*buffer, 4e-7, where);
        expect_near(args.copy, doubles.copy, 0x1p-10, where + " copy");
        EXPECT_EQ(state.weight_overflow, 0);
      }
}

TEST(CudaOptimizer, ReportsWeightsThatOverflowTheirCopy) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    OptimizerArgs args{.kind = OptimizerKind::kSgd};
    args.master = on_device({3}, {1, 2, dtype == DType::kF16 ? 65520 : 3.4e38});
    args.gradient = on_device({3}, {0, 0, 0});
    args.copy = Tensor(Shape{3}, dtype, emulated_device());
    StepState state = scaled(1, 0.1f);
    cuda_backend().optimizer_step(args, state);
    EXPECT_EQ(state.weight_overflow, 1);
    EXPECT_EQ(args.copy.to_values(), (Numbers{1, 2, std::numeric_limits<double>::infinity()}));
  }
}

TEST(CudaOptimizer, DoesNothingUnlessTheEventIsGood) {
  const OptimizerArgs args = step_args(OptimizerKind::kAdam, {}, 100);
  const Numbers before = args.master.to_values(), moments = args.moment1.to_values();
  for (const StepEvent event : {StepEvent::kOverflow, StepEvent::kForward}) {
    StepState state = scaled(8, 0.1f);
    state.event = event;
    cuda_backend().optimizer_step(args, state);
  }
  EXPECT_EQ(args.master.to_values(), before);
  EXPECT_EQ(args.moment1.to_values(), moments);
}

TEST(CudaGradientCheck, CountsAndSumsOverManyBlocks) {
  for (const std::int64_t n : {1, 17, 8192, 8193, 100003}) {
    Numbers values = random_numbers(n, 9);
    GradientCheck clean, dirty;
    cuda_backend().gradient_check(on_device({n}, values), scaled(1024, 0), clean);
    double squares = 0;
    for (const double v : on_device({n}, values).to_values()) squares += v * v;
    EXPECT_EQ(clean.nonfinite, 0);
    EXPECT_NEAR(clean.sum_of_squares, squares, 1e-13 * squares);
    std::int64_t planted = 0;
    for (std::int64_t i = 0; i < n; i += 1 + n / 7, ++planted)
      values[static_cast<std::size_t>(i)] = planted % 2 == 0 ? NAN : -INFINITY;
    cuda_backend().gradient_check(on_device({n}, values), scaled(1024, 0), dirty);
    EXPECT_EQ(dirty.nonfinite, planted) << n;
  }
}

// Squares beyond float are finite; below scale 1 a value that overflows when unscaled counts.
TEST(CudaGradientCheck, AtTheEdges) {
  const Tensor g = on_device({3}, {3e38, 1e20, 0});
  GradientCheck check, small;
  cuda_backend().gradient_check(g, scaled(1024, 0), check);
  EXPECT_EQ(check.nonfinite, 0);
  EXPECT_NEAR(check.sum_of_squares, 9e76, 1e70);
  cuda_backend().gradient_check(g, scaled(0.5f, 0), small);
  EXPECT_EQ(small.nonfinite, 1);
  cuda_backend().gradient_check(Tensor(Shape{0}, DType::kF32, emulated_device()), scaled(1, 0), small);
  EXPECT_EQ(small.nonfinite, 1);
}

// A slice of channels on each side: the neighbours stay.
TEST(CudaPitched, MapAndReduceRows) {
  const std::int64_t rows = 700, channels = 5;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const Tensor wide_x = on_device({rows, channels + 6}, random_numbers(rows * (channels + 6), 10), dtype);
    const Tensor wide_y = on_device({rows, channels + 4}, Numbers(rows * (channels + 4), 77), dtype);
    const Tensor x = wide_x.slice_channels(3, channels), y = wide_y.slice_channels(2, channels);
    cuda_backend().map({.kernel = MapKernel::kScale, .params = {.a = 2}}, {{x}}, y);
    const Numbers in = x.to_values(), all = wide_y.to_values();
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < channels + 4; ++c) {
        const bool inside = c >= 2 && c < 2 + channels;
        ASSERT_EQ(all[static_cast<std::size_t>(r * (channels + 4) + c)],
                  inside ? 2 * in[static_cast<std::size_t>(r * channels + c - 2)] : 77);
      }
    const Tensor sums = on_device({channels}, {1, 2, 3, 4, 5}), want = exact(sums);
    cuda_backend().reduce_rows(x, y, sums);
    reference().reduce_rows(exact(x), exact(y), want);
    expect_near(sums, want, 2e-6, "sums");
    const Tensor other = on_device({rows, channels}, random_numbers(rows * channels, 12));
    cuda_backend().reduce_rows(x, other, sums);  // of two dtypes
    reference().reduce_rows(exact(x), exact(other), want);
    expect_near(sums, want, 4e-6, "sums of products");
  }
}

// Copies know sizes of elements alone.
TEST(CudaCopies, MoveAndReorderEveryDtype) {
  const std::int64_t n = 2, c = 35, d = 3, w = 37;
  Numbers values;
  for (std::int64_t i = 0; i < n * c * d * w; ++i) values.push_back(static_cast<double>(i * 7 % 251));
  for (const DType dtype : {DType::kU8, DType::kI16, DType::kBF16, DType::kI32, DType::kI64, DType::kF32}) {
    const Tensor x = on_device({n, c, d, w}, values, dtype);
    const Tensor logical(Shape{n * c * d * w}, dtype, emulated_device()), again(x.shape(), dtype, x.device());
    cuda_backend().reorder(x, logical, true);
    EXPECT_EQ(logical.to_values(), values) << name(dtype);
    cuda_backend().reorder(logical, again, false);
    EXPECT_EQ(again.to_values(), values) << name(dtype);

    // The last two axes change places: both are strided, for channels are the dense one.
    const Tensor turned(Shape{n, c, w, d}, dtype, emulated_device());
    cuda_backend().move({.rank = 4,
                         .size = {n, c, d, w},
                         .from_stride = {d * w * c, 1, w * c, c},
                         .to_stride = {d * w * c, 1, c, d * c}},
                        x, turned);
    const Numbers got = turned.to_values();
    for (std::int64_t i = 0; i < n * c; ++i)
      for (std::int64_t z = 0; z < d; ++z)
        for (std::int64_t k = 0; k < w; ++k)
          ASSERT_EQ(got[static_cast<std::size_t>((i * w + k) * d + z)],
                    values[static_cast<std::size_t>((i * d + z) * w + k)])
              << name(dtype);
  }
}

// More chunks than one block merges in a round, more channels than a tile has.
TEST(CudaReductions, ManyChunksAndTiles) {
  for (const auto& [rows, channels] :
       {std::pair<std::int64_t, std::int64_t>{600000, 1}, {20000, 37}, {3, 1000}}) {
    const Tensor x = on_device({rows, channels}, random_numbers(rows * channels, 11));
    const Tensor sums = Tensor::zeros({channels}, DType::kF32, emulated_device()), want = exact(sums);
    cuda_backend().reduce_rows(x, {}, sums);
    reference().reduce_rows(exact(x), {}, want);
    expect_near(sums, want, 1e-5, std::to_string(channels));
  }
}

}  // namespace
}  // namespace tandem::testing

// Instance norm with its activation at every instruction-set level, against the reference backend.
#include <array>
#include <numeric>

#include "tests/cpu/loops_fixture.h"

namespace tandem::loops_test {
namespace {

class LoopsNorm : public LoopsTest {};

constexpr Activation kActivations[] = {Activation::kNone, Activation::kRelu, Activation::kLeakyRelu};

NormTensors parameters(std::int64_t batch, std::int64_t channels) {
  return {.scale = make(Shape{channels}, DType::kF32, random_values(channels, 21, 1, 0.3)),
          .shift = make(Shape{channels}, DType::kF32, random_values(channels, 22, 0, 0.3)),
          .mean = make(Shape{batch, channels}, DType::kF32),
          .inv_std = make(Shape{batch, channels}, DType::kF32),
          .dscale = make(Shape{channels}, DType::kF32, random_values(channels, 23)),
          .dshift = make(Shape{channels}, DType::kF32, random_values(channels, 24))};
}

NormTensors exact_parameters(const NormTensors& t) {
  return {exact(t.scale), exact(t.shift), exact(t.mean), exact(t.inv_std), exact(t.dscale), exact(t.dshift)};
}

struct NormCase {
  Shape shape;
  DType dtype = DType::kF32;
  Layout layout = Layout::kPacked;
  double mean = 0.3, std = 1.5;
  NormArgs args;
};

// slack: of y and dx; statistics and parameter gradients have sums over the voxels.
void check_norm(const CpuLoops& loops, const NormCase& test, double slack) {
  const auto reference = make_reference_backend();
  const Tensor x =
      make(test.shape, test.dtype, random_values(test.shape.numel(), 25, test.mean, test.std), test.layout);
  const Tensor y = make(test.shape, test.dtype, test.layout), wanted = exact(test.shape);
  const NormTensors t = parameters(test.shape[0], test.shape[1]), e = exact_parameters(t);
  const std::string where = describe(x) + " mean " + std::to_string(test.mean);
  reference->norm_forward(test.args, exact(x), e, wanted);
  loops.norm_forward(test.args, x, t, y);
  expect_near(t.mean, read(e.mean), 3e-7 * test.std, "mean of " + where);
  const std::vector<double> inverse = read(e.inv_std);
  const double largest = *std::max_element(inverse.begin(), inverse.end());
  expect_near(t.inv_std, inverse, 4e-7 * largest, "inv_std of " + where);
  expect_near(y, read(wanted), slack, "y of " + where);
  expect_margins(y, where);

  const Tensor dy = make(test.shape, test.dtype, random_values(test.shape.numel(), 26), test.layout);
  const Tensor dx = make(test.shape, test.dtype, test.layout), dx_wanted = exact(test.shape);
  reference->norm_backward(test.args, exact(dy), exact(x), e, dx_wanted);
  loops.norm_backward(test.args, dy, x, t, dx);
  const double sums = slack * 3 * std::sqrt(static_cast<double>(test.shape.numel() / test.shape[1]));
  expect_near(t.dshift, read(e.dshift), sums, "dshift of " + where);
  expect_near(t.dscale, read(e.dscale), sums, "dscale of " + where);
  expect_near(dx, read(dx_wanted), slack * largest, "dx of " + where);
  expect_margins(dx, where);
}

TEST_P(LoopsNorm, EveryDtypeActivationAndOddSize) {
  for (const DType dtype : kDTypes)
    for (const Activation activation : kActivations)
      for (const std::int64_t rows : {3, 17, 300})
        for (const std::int64_t channels : {1, 3, 5, 16, 17, 33})
          for (const Layout layout : {Layout::kPacked, Layout::kPitched})
            check_norm(loops(),
                       {Shape{2, channels, rows}, dtype, layout, 0.3, 1.5, {.activation = activation}}, 4e-6);
}

TEST_P(LoopsNorm, WideAndLong) {
  for (const Shape& shape :
       {Shape{1, 320, 4, 4, 4}, Shape{1, 1030, 2, 3, 5}, Shape{1, 100, 30, 41}, Shape{2, 2, 40000}})
    for (const DType dtype : {DType::kF32, DType::kF16})
      check_norm(loops(), {shape, dtype, Layout::kPacked, 0.3, 1.5, {.activation = Activation::kLeakyRelu}},
                 4e-6);
}

// amp.md 3.2: squares of +-512 do not fit FP16; means far above the spread do not cancel.
TEST_P(LoopsNorm, LargeMeansAndSpreads) {
  for (const DType dtype : kDTypes)
    check_norm(loops(), {Shape{1, 5, 4000}, dtype, Layout::kPacked, 0, 512}, 4e-6);
  check_norm(loops(), {Shape{1, 5, 4000}, DType::kF16, Layout::kPacked, 512, 1}, 1e-4);
  for (const std::int64_t channels : {1, 16, 33})
    for (const double mean : {1e4, -1e4}) {
      const NormCase test{Shape{1, channels, 50000}, DType::kF32, Layout::kPacked, mean, 1};
      const Tensor x = make(test.shape, test.dtype, random_values(test.shape.numel(), 27, mean, 1));
      const NormTensors t = parameters(1, channels), e = exact_parameters(t);
      const Tensor y = make(test.shape, test.dtype), wanted = exact(test.shape);
      make_reference_backend()->norm_forward(test.args, exact(x), e, wanted);
      loops().norm_forward(test.args, x, t, y);
      expect_near(t.mean, read(e.mean), 0, "mean");
      expect_near(t.inv_std, read(e.inv_std), 4e-7, "inv_std");
      expect_near(y, read(wanted), 2e-6, "y");  // as if the mean were not rounded to a float
    }
}

// One voxel far away at the start of the volume must not spoil the rest's variance.
TEST_P(LoopsNorm, Outlier) {
  const Shape shape{1, 1, 20000};
  std::vector<double> values = random_values(shape.numel(), 28);
  values[0] = 1e4;
  const Tensor x = make(shape, DType::kF32, values), y = make(shape, DType::kF32);
  const NormTensors t = parameters(1, 1), e = exact_parameters(t);
  make_reference_backend()->norm_forward({}, exact(x), e, exact(shape));
  loops().norm_forward({}, x, t, y);
  expect_near(t.inv_std, read(e.inv_std), 1e-6 * read(e.inv_std)[0], "inv_std");
}

TEST_P(LoopsNorm, OneVoxelGivesTheShift) {
  for (const DType dtype : kDTypes) {
    const Shape shape{2, 5, 1, 1, 1};
    const NormTensors t = parameters(2, 5);
    const Tensor x = make(shape, dtype, random_values(10, 29, 3, 40)), y = make(shape, dtype);
    loops().norm_forward({}, x, t, y);
    std::vector<double> expected = read(t.shift);
    expected.insert(expected.end(), expected.begin(), expected.begin() + 5);
    expect_near(y, expected, 0, describe(x));
    const Tensor dx = make(shape, dtype);
    loops().norm_backward({}, y, x, t, dx);
    expect_near(dx, std::vector<double>(10, 0.0), 1e-4, "dx");  // inv_std is 316
  }
}

// A constant volume: variance 0, inv_std = 1 / sqrt(eps).
TEST_P(LoopsNorm, ConstantVolume) {
  const Shape shape{1, 3, 12345};
  const Tensor x =
      make(shape, DType::kF32, std::vector<double>(static_cast<std::size_t>(shape.numel()), 1e4 / 3));
  const NormTensors t = parameters(1, 3);
  const Tensor y = make(shape, DType::kF32);
  loops().norm_forward({}, x, t, y);
  expect_near(t.inv_std, std::vector<double>(3, 1 / std::sqrt(1e-5)), 0, "inv_std");
}

// amp.md C8: 2^17 gradients of 1 sum to 131072, beyond FP16.
TEST_P(LoopsNorm, BackwardSumsAreFloat) {
  const Shape shape{1, 2, 131072};
  const auto n = static_cast<std::size_t>(shape.numel());
  const Tensor x = make(shape, DType::kF16, random_values(shape.numel(), 30));
  const Tensor dy = make(shape, DType::kF16, std::vector<double>(n, 1.0)), dx = make(shape, DType::kF16);
  const NormTensors t = parameters(1, 2);
  fill(t.dshift, {0, 0});
  loops().norm_forward({}, x, t, make(shape, DType::kF16));
  loops().norm_backward({}, dy, x, t, dx);
  expect_near(t.dshift, {131072, 131072}, 0, "dshift");
  for (const double v : read(dx)) ASSERT_NEAR(v, 0, 1e-4);
}

TEST_P(LoopsNorm, NanAndInfinityStayVisible) {
  const Shape shape{2, 3, 50};
  std::vector<double> values = random_values(shape.numel(), 31);
  values[4] = std::numeric_limits<double>::infinity();
  const Tensor x = make(shape, DType::kF16, values), y = make(shape, DType::kF16);
  const NormTensors t = parameters(2, 3);
  loops().norm_forward({.activation = Activation::kLeakyRelu}, x, t, y);
  const std::vector<double> got = read(y);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(std::isnan(got[i]), i < 150 && i % 3 == 1) << i;  // sample 0, channel 1
}

TEST_P(LoopsNorm, SameBitsForAnyNumberOfThreads) {
  const Shape shape{2, 24, 9, 21, 23};
  const Tensor x = make(shape, DType::kF16, random_values(shape.numel(), 32));
  const Tensor dy = make(shape, DType::kF16, random_values(shape.numel(), 33));
  std::vector<Tensor> results[2];
  for (const int threads : {1, 2}) {
    set_compute_threads(threads);
    const NormTensors t = parameters(2, 24);
    const Tensor y = make(shape, DType::kF16), dx = make(shape, DType::kF16);
    const NormArgs args{.activation = Activation::kLeakyRelu};
    loops().norm_forward(args, x, t, y);
    loops().norm_backward(args, dy, x, t, dx);
    results[threads - 1] = {y, dx, t.mean, t.inv_std, t.dscale, t.dshift};
  }
  for (std::size_t i = 0; i < results[0].size(); ++i)
    expect_same_bits(results[0][i], results[1][i], "result " + std::to_string(i));
}

TD_FOR_EACH_LEVEL(LoopsNorm);

}  // namespace
}  // namespace tandem::loops_test

// FP16 convolution on matrix tiles: by AMX where there is AMX, and by the portable row kernel everywhere,
// against double.
#include <limits>

#include "core/backends/cpu/tiles/tile_kernels.h"
#include "core/base/parallel.h"
#include "tests/cpu/conv_oracle.h"

namespace tandem::testing {
namespace {

TEST(TileChunk, IsTheGreatestEvenDivisor) {
  for (const auto& [length, chunk] :
       {std::pair{2, 2}, {6, 6}, {32, 32}, {48, 24}, {96, 32}, {80, 20}, {34, 2}, {192, 32}})
    EXPECT_EQ(tile_chunk(length), chunk) << length;
}

// Every element of a packed run has a place of its own.
TEST(TileOffset, CoversTheRun) {
  for (const int width : {16, 32})
    for (const std::int64_t length : {2, 48, 96}) {
      std::vector<int> hits(static_cast<std::size_t>(3 * length * width));
      for (int part = 0; part < 3; ++part)
        for (std::int64_t i = 0; i < length; ++i)
          for (int n = 0; n < width; ++n)
            ++hits[static_cast<std::size_t>(tile_offset(length, width, part, i, n))];
      EXPECT_EQ(hits, std::vector<int>(hits.size(), 1)) << length << " x " << width;
    }
}

// true: AMX.
class TileEngine : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && cpu_target().isa != CpuIsa::kAmx) GTEST_SKIP() << "no AMX here";
  }
  ConvContext context_{GetParam() ? cpu_target() : CpuTarget{std::min(cpu_target().isa, CpuIsa::kV4), false},
                       kernel_table(cpu_isa())};
};

TEST_P(TileEngine, ConvolutionAgainstDouble) {
  const std::vector<ConvGeometry> list = {
      geometry(3, 2, 6, 7, {4, 5, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
      geometry(3, 1, 32, 18, {3, 4, 5}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}),
      geometry(2, 1, 34, 16, {1, 9, 5}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),
      geometry(1, 2, 16, 4, {1, 1, 17}, {1, 1, 1}),
      geometry(1, 1, 4, 40, {1, 1, 50}, {1, 1, 1}, {1, 1, 2}),  // phases without taps
      geometry(3, 1, 16, 16, {3, 3, 37}, {3, 3, 3}, {1, 1, 1}, {2, 2, 2}, {2, 2, 2}),
      geometry(3, 1, 48, 16, {4, 4, 36}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
      geometry(2, 1, 8, 8, {1, 4, 4}, {1, 2, 2}, {1, 2, 2}),
      geometry(2, 1, 8, 8, {1, 2, 3}, {1, 5, 5}, {1, 1, 1}, {0, 2, 2}),
  };
  const CpuConv conv(context_);
  for (const ConvGeometry& g : list) {
    const Tensor x = random_tensor(data_shape(g, true), DType::kF16, 1);
    const Tensor w = random_tensor(weight_shape(g), DType::kF16, 2);
    const Tensor dy = random_tensor(data_shape(g, false), DType::kF16, 3);
    const Tensor bias = random_tensor({g.out_channels}, DType::kF32, 4);
    const Tensor y(data_shape(g, false), DType::kF16), dx(data_shape(g, true), DType::kF16);
    const auto sums = [&](Operand target) {
      return oracle(g, target, x.to_values(), w.to_values(), dy.to_values());
    };
    conv.forward(Engine::kTiles, g, x, w, Tensor(), y);
    expect_within(y.to_values(), sums(Operand::kY), 0x1p-11, "forward " + to_string(g));
    Sums with_bias = sums(Operand::kY);
    const std::vector<double> b = bias.to_values();
    for (std::size_t i = 0; i < with_bias.value.size(); ++i)
      with_bias.value[i] += b[i / static_cast<std::size_t>(volume(g.out)) % b.size()];
    conv.forward(Engine::kTiles, g, x, w, bias, y);
    expect_within(y.to_values(), with_bias, 0x1p-11, "forward with bias " + to_string(g));
    if (g.out_channels % 2 != 0) continue;
    conv.backward_data(Engine::kTiles, g, dy, w, dx);
    expect_within(dx.to_values(), sums(Operand::kX), 0x1p-11, "data gradient " + to_string(g));
  }
}

// Rows that are not packed: a view of half of the channels.
TEST_P(TileEngine, PitchedOperands) {
  const ConvGeometry g = geometry(3, 1, 8, 16, {3, 4, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1});
  ConvGeometry wide = g;
  wide.in_channels = 16;
  const Tensor whole = random_tensor(data_shape(wide, true), DType::kF16, 1);
  const Tensor w = random_tensor(weight_shape(g), DType::kF16, 2);
  const Tensor part = whole.slice_channels(4, 8);
  const Tensor packed = Tensor::from_values(part.shape(), part.to_values(), DType::kF16);
  const Tensor y(data_shape(g, false), DType::kF16), expected(data_shape(g, false), DType::kF16);
  const CpuConv conv(context_);
  conv.forward(Engine::kTiles, g, part, w, Tensor(), y);
  conv.forward(Engine::kTiles, g, packed, w, Tensor(), expected);
  EXPECT_EQ(y.to_values(), expected.to_values());
}

// An infinity or NaN is where exact arithmetic has it, in values and in weights; subnormals are kept.
TEST_P(TileEngine, KeepsInfinityNanAndSubnormals) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const ConvGeometry g = geometry(1, 1, 2, 2, {1, 1, 6}, {1, 1, 1});
  const Tensor x = Tensor::from_values(
      {1, 2, 6}, std::vector<double>{kInfinity, -kInfinity, NAN, 0x1p-24, 65504, 0, 0, 0, 0, 0, 0, 0},
      DType::kF16);
  // 1 has no low part: infinity * 0 must not enter. 1.0009765625 = 1 + 2^-10 has.
  const Tensor w = Tensor::from_values({2, 2, 1}, std::vector<double>{1, 1, 1.0009765625, 1}, DType::kF16);
  const Tensor y({1, 2, 6}, DType::kF16);
  const CpuConv conv(context_);
  conv.forward(Engine::kTiles, g, x, w, Tensor(), y);
  const std::vector<double> got = y.to_values();
  for (const std::size_t k : {0u, 6u}) {
    EXPECT_EQ(got[k], kInfinity);
    EXPECT_EQ(got[k + 1], -kInfinity);
    EXPECT_TRUE(std::isnan(got[k + 2]));
    EXPECT_EQ(got[k + 3], 0x1p-24);
    EXPECT_EQ(got[k + 5], 0.0);
  }
  EXPECT_EQ(got[4], 65504);
  EXPECT_EQ(got[10], kInfinity);  // 65568
  const Tensor ones = Tensor::from_values({1, 2, 6}, std::vector<double>(12, 1.0), DType::kF16);
  const Tensor infinite =
      Tensor::from_values({2, 2, 1}, std::vector<double>{kInfinity, 1, -kInfinity, 1}, DType::kF16);
  conv.forward(Engine::kTiles, g, ones, infinite, Tensor(), y);
  for (const std::size_t i : {0u, 5u}) {
    EXPECT_EQ(y.to_values()[i], kInfinity);
    EXPECT_EQ(y.to_values()[6 + i], -kInfinity);
  }
}

// The sums of the split and of FP32 differ by the products of the low parts alone, and are rounded alike.
TEST_P(TileEngine, AgreesWithFp32Compute) {
  for (const ConvGeometry& g : {geometry(3, 1, 16, 16, {6, 6, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
                                geometry(3, 1, 24, 40, {5, 4, 19}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1})}) {
    const Tensor x = random_tensor(data_shape(g, true), DType::kF16, 1);
    const Tensor w = random_tensor(weight_shape(g), DType::kF16, 2);
    const Tensor dy = random_tensor(data_shape(g, false), DType::kF16, 3);
    const Tensor y(data_shape(g, false), DType::kF16), wide_y(data_shape(g, false), DType::kF16);
    const Tensor dx(data_shape(g, true), DType::kF16), wide_dx(data_shape(g, true), DType::kF16);
    const CpuConv conv(context_);
    conv.forward(Engine::kTiles, g, x, w, Tensor(), y);
    conv.forward(Engine::kWidened, g, x, w, Tensor(), wide_y);
    expect_close(y.to_values(), wide_y.to_values(), 1e-5, 0x1p-10, "forward " + to_string(g));
    conv.backward_data(Engine::kTiles, g, dy, w, dx);
    conv.backward_data(Engine::kWidened, g, dy, w, wide_dx);
    expect_close(dx.to_values(), wide_dx.to_values(), 1e-5, 0x1p-10, "data gradient " + to_string(g));
  }
}

// Where own FP32 kernels give infinity or NaN, tiles give the same, and nowhere else: each value in turn in
// the middle of a volume, at its corner, and in a weight.
TEST_P(TileEngine, ExtremesSpreadAsInFp32) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (cpu_target().isa < CpuIsa::kV3) GTEST_SKIP() << "own FP32 kernels need AVX2";
  const CpuConv conv(context_);
  const auto same = [](const Tensor& got, const Tensor& want, const std::string& what) {
    const std::vector<double> a = got.to_values(), b = want.to_values();
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(b[i])) {
        ASSERT_TRUE(std::isnan(b[i]) ? std::isnan(a[i]) : a[i] == b[i])
            << what << ", element " << i << ": " << a[i];
      } else {
        ASSERT_NEAR(a[i], b[i], 0x1p-24 + 0x1p-9 * std::fabs(b[i])) << what << ", element " << i;
      }
    }
  };
  for (const Triple& stride : {Triple{1, 1, 1}, Triple{2, 2, 2}}) {
    const ConvGeometry g = geometry(3, 1, 4, 6, {4, 5, 7}, {3, 3, 3}, stride, {1, 1, 1});
    for (const double extreme : {kInfinity, -kInfinity, double{NAN}, 65504.0, 0x1p-24})
      for (const int place : {0, 1, 2}) {
        const auto filled = [&](const Shape& shape, bool changed) {
          // Small enough that 65504 stays finite in FP32 sums, and even a product with 2^-24 is seen.
          std::vector<double> values(static_cast<std::size_t>(shape.numel()), 0.0);
          if (changed) values[place == 1 ? 0 : values.size() / 2] = extreme;
          return Tensor::from_values(shape, values, DType::kF16);
        };
        const Tensor w =
            place == 2 ? filled(weight_shape(g), true) : random_tensor(weight_shape(g), DType::kF16, 1);
        const bool in_data = place != 2;
        const Tensor x =
            in_data ? filled(data_shape(g, true), true) : random_tensor(data_shape(g, true), DType::kF16, 2);
        const Tensor dy = in_data ? filled(data_shape(g, false), true)
                                  : random_tensor(data_shape(g, false), DType::kF16, 3);
        const std::string what =
            std::to_string(extreme) + " at place " + std::to_string(place) + " " + to_string(g);
        const Tensor y(data_shape(g, false), DType::kF16), wide_y(data_shape(g, false), DType::kF16);
        conv.forward(Engine::kTiles, g, x, w, Tensor(), y);
        conv.forward(Engine::kDirect, g, x, w, Tensor(), wide_y);
        same(y, wide_y, "forward " + what);
        const Tensor dx(data_shape(g, true), DType::kF16), wide_dx(data_shape(g, true), DType::kF16);
        conv.backward_data(Engine::kTiles, g, dy, w, dx);
        conv.backward_data(Engine::kDirect, g, dy, w, wide_dx);
        same(dx, wide_dx, "data gradient " + what);
        if (HasFatalFailure()) return;
      }
  }
}

TEST_P(TileEngine, SameBitsForAnyNumberOfThreads) {
  const ConvGeometry g = geometry(3, 1, 16, 32, {6, 7, 33}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1});
  const Tensor x = random_tensor(data_shape(g, true), DType::kF16, 1);
  const Tensor w = random_tensor(weight_shape(g), DType::kF16, 2);
  const int before = compute_threads();
  std::vector<std::vector<double>> results;
  for (const int threads : {1, 2, 3}) {
    set_compute_threads(threads);
    const Tensor y(data_shape(g, false), DType::kF16);
    CpuConv(context_).forward(Engine::kTiles, g, x, w, Tensor(), y);
    results.push_back(y.to_values());
  }
  set_compute_threads(before);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

INSTANTIATE_TEST_SUITE_P(Kernels, TileEngine, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "amx" : "portable"; });

}  // namespace
}  // namespace tandem::testing

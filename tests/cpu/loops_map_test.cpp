// Elementwise maps, conversions and row sums at every instruction-set level, against the reference backend.
#include <array>
#include <limits>

#include "tests/cpu/loops_fixture.h"

namespace tandem::loops_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

class LoopsMap : public LoopsTest {};

int arity(MapKernel kernel) {
  int n = 0;
  visit_map_kernel(kernel, [&]<class F>() { n = F::kArity; });
  return n;
}

Tensor operand(const Shape& shape, DType dtype, Layout layout, unsigned seed) {
  return make(shape, dtype, random_values(shape.numel(), seed), layout);
}

TEST_P(LoopsMap, EveryFunctorDtypeAndLayout) {
  const auto reference = make_reference_backend();
  for (std::size_t k = 0; k < std::size(kMapKernelNames); ++k)
    for (const DType in : kDTypes)
      for (const DType out_dtype : kDTypes)
        for (const Layout layout : {Layout::kPacked, Layout::kPitched})
          for (const bool accumulate : {false, true}) {
            const Shape shape{1, 5, 1, 3, 231};
            const MapArgs args{static_cast<MapKernel>(k), {.a = 0.25}, accumulate};
            const std::vector<Tensor> inputs{operand(shape, in, layout, 1),
                                             operand(shape, in, Layout::kPacked, 2),
                                             operand(shape, in, Layout::kPacked, 8)};
            const std::span<const Tensor> used(inputs.data(), static_cast<std::size_t>(arity(args.kernel)));
            const Tensor out = operand(shape, out_dtype, layout, 3);
            const std::vector<Tensor> doubles{exact(inputs[0]), exact(inputs[1]), exact(inputs[2])};
            const Tensor expected = exact(out);
            reference->map(args, std::span(doubles.data(), used.size()), expected);
            loops().map(args, used, out);
            const std::string where =
                std::string(kMapKernelNames[k]) + " " + describe(inputs[0]) + " -> " + describe(out);
            // A square doubles the rounding of its difference.
            const double slack = args.kernel == MapKernel::kSquaredError ? 4e-6 : 5e-7;
            expect_near(out, read(expected), slack, where);
            expect_margins(out, where);
          }
}

TEST_P(LoopsMap, PerChannelAndSingleOperandsAtOddSizes) {
  const auto reference = make_reference_backend();
  for (const std::int64_t rows : {1, 3, 17, 1000})
    for (const std::int64_t channels : {1, 3, 5, 16, 17, 33, 320, 2049})
      for (const Layout layout : {Layout::kPacked, Layout::kPitched})
        for (const std::int64_t operand_size : {channels, std::int64_t{1}}) {
          if (rows * channels > 400000) continue;
          const Shape shape{1, channels, rows};
          const MapArgs args{MapKernel::kAdd};
          const std::vector<Tensor> inputs{operand(shape, DType::kF16, layout, 4),
                                           operand(Shape{operand_size}, DType::kF32, Layout::kPacked, 5)};
          const Tensor out = make(shape, DType::kF32, layout), expected = exact(shape);
          reference->map(args, std::vector<Tensor>{exact(inputs[0]), exact(inputs[1])}, expected);
          loops().map(args, inputs, out);
          const std::string where = describe(out) + " + " + describe(inputs[1]);
          expect_near(out, read(expected), 0, where);
          expect_margins(out, where);
        }
}

TEST_P(LoopsMap, InPlace) {
  for (const DType dtype : kDTypes) {
    const Tensor x = operand(Shape{1, 7, 1000}, dtype, Layout::kPacked, 6);
    std::vector<double> expected = read(x);
    for (double& v : expected) v = v < 0 ? 0 : v;
    loops().map({MapKernel::kRelu}, std::array{x}, x);
    expect_near(x, expected, 0, describe(x));
  }
}

// amp.md 3.3; each fact is exact.
struct NumberFact {
  DType dtype;
  double from, to;
};
const NumberFact kFacts[] = {
    {DType::kF16, 65504, 65504},
    {DType::kF16, 65519.99, 65504},
    {DType::kF16, 65520, kInfinity},
    {DType::kF16, -65520, -kInfinity},
    {DType::kF16, 0x1p-14, 0x1p-14},
    {DType::kF16, 0x1p-24, 0x1p-24},
    {DType::kF16, 0x1p-25, 0},
    {DType::kF16, 0x1p-25 * 1.0001, 0x1p-24},
    {DType::kF16, 1e-8, 0},
    {DType::kF16, 1e-7, 2 * 0x1p-24},
    {DType::kF16, 1e-5, 168 * 0x1p-24},
    {DType::kF16, 2049, 2048},
    {DType::kF16, 2051, 2052},
    {DType::kF16, 0.9999, 1},
    {DType::kF16, 0.99975, 0.99951171875},
    {DType::kF16, kInfinity, kInfinity},
    {DType::kF16, kNan, kNan},
    {DType::kBF16, 257, 256},
    {DType::kBF16, 1 + 0x1p-8, 1},
    {DType::kBF16, 1 + 0x1p-8 + 0x1p-20, 1.0078125},
    {DType::kBF16, 0.999, 1},
    {DType::kBF16, 0.998, 0.99609375},
    {DType::kBF16, 65504, 65536},
    {DType::kBF16, 3.4028234663852886e38, kInfinity},
    {DType::kBF16, 3.3895313892515355e38, 3.3895313892515355e38},
    {DType::kBF16, 0x1p-133, 0x1p-133},
    {DType::kBF16, -kInfinity, -kInfinity},
    {DType::kBF16, kNan, kNan},
};

TEST_P(LoopsMap, NumberFactsThroughCopy) {
  for (const NumberFact& fact : kFacts)
    for (const std::int64_t n : {1, 7, 16, 67}) {  // vectors and the rest after them
      const auto values = std::vector<double>(static_cast<std::size_t>(n), fact.from);
      const Tensor x = make(Shape{n}, DType::kF32, values), y = make(Shape{n}, fact.dtype);
      loops().map({MapKernel::kCopy}, std::array{x}, y);
      for (const double got : read(y)) {
        if (std::isnan(fact.to))
          EXPECT_TRUE(std::isnan(got)) << name(fact.dtype);
        else
          EXPECT_EQ(got, fact.to) << name(fact.dtype) << " of " << fact.from;
      }
    }
}

// Every 16-bit value widens exactly and comes back, and floats around every half narrow as core/base/half.h
// does.
TEST_P(LoopsMap, AllHalves) {
  std::vector<std::uint16_t> halves(65536), back(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::vector<float> wide(65536);
    loops().convert_to_float(halves.data(), dtype, wide.data(), 65536);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      const float expected = dtype == DType::kF16 ? to_float(Half{halves[i]}) : to_float(BFloat16{halves[i]});
      if (std::isnan(expected))
        ASSERT_TRUE(std::isnan(wide[i])) << i;
      else
        ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(expected)) << i;
    }
    for (const int shift : {-1, 0, 1, 4096, 4097, 32768, 32769}) {
      std::vector<float> near = wide;
      for (float& x : near)
        x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) + static_cast<unsigned>(shift));
      loops().convert_from_float(near.data(), back.data(), dtype, 65536);
      for (std::size_t i = 0; i < back.size(); ++i) {
        const std::uint16_t expected =
            dtype == DType::kF16 ? to_half(near[i]).bits : to_bfloat16(near[i]).bits;
        if (std::isnan(near[i]))
          ASSERT_TRUE(
              std::isnan(dtype == DType::kF16 ? to_float(Half{back[i]}) : to_float(BFloat16{back[i]})));
        else
          ASSERT_EQ(back[i], expected) << name(dtype) << " of " << near[i];
      }
    }
  }
}

TEST_P(LoopsMap, ExtremesKeepNanAndInfinity) {
  const std::vector<double> x{kNan, kInfinity, -kInfinity, 65504, -65504, 0x1p-24, -0x1p-24, 0};
  const Tensor in = make(Shape{8}, DType::kF16, x), out = make(Shape{8}, DType::kF16);
  loops().map({MapKernel::kRelu}, std::array{in}, out);
  expect_near(out, {kNan, kInfinity, 0, 65504, 0, 0x1p-24, 0, 0}, 0, "relu");
  loops().map({MapKernel::kLeakyRelu, {.a = 0.5}}, std::array{in}, out);
  expect_near(out, {kNan, kInfinity, -kInfinity, 65504, -32752, 0x1p-24, 0, 0}, 0, "leaky relu");
  loops().map({MapKernel::kAdd}, std::array{in, in}, out);
  expect_near(out, {kNan, kInfinity, -kInfinity, kInfinity, -kInfinity, 0x1p-23, -0x1p-23, 0}, 0, "add");
}

// The master copy: without it (w = 1, 100 steps of -1e-4) FP16 and BF16 stay at 1.0, FP32 gets to 0.98999834.
TEST_P(LoopsMap, UpdatesAreLostWithoutMasterWeights) {
  const std::pair<DType, double> expected[] = {
      {DType::kF16, 1.0}, {DType::kBF16, 1.0}, {DType::kF32, static_cast<double>(0.98999834f)}};
  for (const auto& [dtype, value] : expected) {
    const Tensor w = make(Shape{1}, dtype, {1.0}), step = make(Shape{1}, DType::kF32, {-1e-4});
    for (int i = 0; i < 100; ++i) loops().map({MapKernel::kCopy, {}, true}, std::array{step}, w);
    EXPECT_EQ(read(w)[0], value) << name(dtype);
  }
}

TEST_P(LoopsMap, ReduceRows) {
  const auto reference = make_reference_backend();
  for (const DType dtype : kDTypes)
    for (const std::int64_t rows : {1, 3, 17, 1000, 40000})
      for (const std::int64_t channels : {1, 3, 5, 16, 17, 33, 63, 100, 320, 513})
        for (const Layout layout : {Layout::kPacked, Layout::kPitched})
          for (const bool product : {false, true}) {
            if (rows * channels > 200000) continue;
            const Shape shape{1, channels, rows};
            const Tensor x = make(shape, dtype, random_values(shape.numel(), 7, 0.5), layout);
            const Tensor y = product ? make(shape, dtype, random_values(shape.numel(), 8)) : Tensor();
            const Tensor out = make(Shape{channels}, DType::kF32, random_values(channels, 9));
            const Tensor expected = exact(out);
            reference->reduce_rows(exact(x), product ? exact(y) : Tensor(), expected);
            loops().reduce_rows(x, y, out);
            // 1e-6 sqrt(K) x scale, the largest term being about 8.
            expect_near(out, read(expected), 8e-6 * std::sqrt(static_cast<double>(rows)), describe(x));
          }
}

// amp.md 3.2: a bias gradient of 128^3 voxels, each 2^-5, is 65536 and must not be infinite; ones beyond 2^24
// must not stall.
TEST_P(LoopsMap, LongSumsAreExact) {
  const std::int64_t rows = 128 * 128 * 128;
  const Tensor x =
      make(Shape{1, 1, rows}, DType::kF16, std::vector<double>(static_cast<std::size_t>(rows), 0x1p-5));
  const Tensor sum = make(Shape{1}, DType::kF32, {16777216.0});
  loops().reduce_rows(x, Tensor(), sum);
  EXPECT_EQ(read(sum)[0], 16777216.0 + 65536.0);
}

TEST_P(LoopsMap, SameBitsForAnyNumberOfThreads) {
  const Shape shape{1, 17, 20000};
  const Tensor x = operand(shape, DType::kF16, Layout::kPacked, 10);
  const Tensor sum1 = make(Shape{17}, DType::kF32, std::vector<double>(17, 0.0)), sum2 = sum1.clone();
  set_compute_threads(1);
  loops().reduce_rows(x, x, sum1);
  set_compute_threads(2);
  loops().reduce_rows(x, x, sum2);
  expect_same_bits(sum1, sum2, "reduce_rows");
}

TD_FOR_EACH_LEVEL(LoopsMap);

}  // namespace
}  // namespace tandem::loops_test

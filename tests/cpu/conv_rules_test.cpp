// What holds for the CPU's convolution beside its values: pitches, slabs, empty batches, special values,
// threads, the cache of packed weights, engine choice.
#include <gmock/gmock.h>

#include <limits>

#include "core/base/error.h"
#include "core/base/parallel.h"
#include "tests/cpu/conv_oracle.h"

namespace tandem::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

ConvGeometry cube(std::int64_t in_channels, std::int64_t out_channels, std::int64_t size,
                  std::int64_t batch = 1) {
  return geometry(3, batch, in_channels, out_channels, {size, size, size}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1});
}

struct Operands {
  Tensor x, w, dy, dw;
  Operands(const ConvGeometry& g, DType dtype)
      : x(random_tensor(data_shape(g, true), dtype, 1)),
        w(random_tensor(weight_shape(g), dtype, 2)),
        dy(random_tensor(data_shape(g, false), dtype, 3)),
        dw(Tensor::zeros(weight_shape(g), DType::kF32)) {}
};

// y, dx, dw of one convolution.
struct Results {
  std::vector<double> y, dx, dw;
  friend bool operator==(const Results&, const Results&) = default;
};

Results compute(const CpuConv& conv, Engine engine, const ConvGeometry& g, const Tensor& x, const Tensor& w,
                const Tensor& dy) {
  const Tensor y(data_shape(g, false), x.dtype()), dx(data_shape(g, true), x.dtype());
  const Tensor dw = Tensor::zeros(weight_shape(g), DType::kF32);
  conv.forward(engine, g, x, w, Tensor(), y);
  conv.backward_data(engine, g, dy, w, dx);
  conv.backward_weights(engine, g, x, dy, dw);
  return {y.to_values(), dx.to_values(), dw.to_values()};
}

class ConvRules : public ::testing::Test {
 protected:
  ConvRules() : context_(cpu_target()), conv_(context_) {}
  ~ConvRules() override { set_compute_threads(0); }
  bool has_direct() const { return cpu_isa() >= CpuIsa::kV3; }

  ConvContext context_;
  CpuConv conv_;
};

TEST_F(ConvRules, PitchedOperandsGiveTheBitsOfPackedOnes) {
  const ConvGeometry g = cube(5, 7, 4, 2);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    for (const Engine engine : {Engine::kDirect, Engine::kOneDnn, Engine::kWidened}) {
      if (engine == (dtype == DType::kF32 ? Engine::kWidened : Engine::kOneDnn)) continue;
      const Operands o(g, dtype);
      const Results packed = compute(conv_, engine, g, o.x, o.w, o.dy);
      const Tensor x = pitched(o.x), dy = pitched(o.dy);
      const Tensor y = pitched(Tensor::zeros(data_shape(g, false), dtype));
      const Tensor dx = pitched(Tensor::zeros(data_shape(g, true), dtype));
      conv_.forward(engine, g, x, o.w, Tensor(), y);
      conv_.backward_data(engine, g, dy, o.w, dx);
      conv_.backward_weights(engine, g, x, dy, o.dw);
      EXPECT_EQ(y.to_values(), packed.y) << name(dtype) << " " << name(engine);
      EXPECT_EQ(dx.to_values(), packed.dx) << name(dtype) << " " << name(engine);
      EXPECT_EQ(o.dw.to_values(), packed.dw) << name(dtype) << " " << name(engine);
    }
}

TEST_F(ConvRules, PitchedResultsLeaveTheirNeighboursAlone) {
  const ConvGeometry g = cube(5, 7, 3);
  const Operands o(g, DType::kF16);
  for (const Engine engine : {Engine::kDirect, Engine::kWidened}) {
    const Tensor whole = random_tensor(data_shape(g, false).with(1, 12), DType::kF16, 9);
    const std::vector<double> left = whole.slice_channels(0, 2).to_values();
    const std::vector<double> right = whole.slice_channels(9, 3).to_values();
    conv_.forward(engine, g, o.x, o.w, Tensor(), whole.slice_channels(2, 7));
    EXPECT_EQ(whole.slice_channels(0, 2).to_values(), left);
    EXPECT_EQ(whole.slice_channels(9, 3).to_values(), right);
  }
}

TEST_F(ConvRules, SlabsOfAnySizeAgree) {
  const std::vector<ConvGeometry> list = {
      cube(3, 4, 9, 3),
      geometry(3, 2, 3, 4, {10, 5, 6}, {3, 3, 3}, {2, 1, 1}, {1, 1, 1}),
      geometry(3, 1, 3, 4, {11, 5, 6}, {3, 3, 3}, {3, 2, 2}, {2, 1, 1}),
      geometry(3, 1, 3, 4, {9, 5, 6}, {1, 1, 1}, {2, 1, 1}),
      geometry(3, 1, 3, 4, {12, 5, 6}, {3, 3, 3}, {1, 1, 1}, {4, 1, 1}, {3, 1, 1}),
      geometry(2, 2, 3, 4, {1, 17, 6}, {1, 5, 3}, {1, 2, 1}, {0, 2, 1}),
      geometry(1, 2, 3, 4, {1, 1, 50}, {1, 1, 5}, {1, 1, 1}, {0, 0, 2}),
  };
  for (const ConvGeometry& g : list) {
    const Operands o(g, DType::kF16);
    const Results whole = compute(conv_, Engine::kWidened, g, o.x, o.w, o.dy);
    for (const std::int64_t bytes : {1, 3000, 9000}) {
      const Results cut = compute(CpuConv(context_, bytes), Engine::kWidened, g, o.x, o.w, o.dy);
      expect_close(cut.y, whole.y, 1e-3, 2e-3, "forward " + to_string(g));
      expect_close(cut.dx, whole.dx, 1e-3, 2e-3, "data gradient " + to_string(g));
      expect_close(cut.dw, whole.dw, 1e-5, 1e-5, "weight gradient " + to_string(g));
    }
  }
}

TEST_F(ConvRules, WorkspaceIsBoundedAndGivenBack) {
  const ConvGeometry g = cube(16, 16, 24);  // widened whole: 2 x 0.9 MB
  const Operands o(g, DType::kF16);
  const Tensor y(data_shape(g, false), DType::kF16);
  const auto allocator = allocator_of(kCpuDevice);
  const auto workspace = static_cast<std::size_t>(MemoryCategory::kWorkspace);
  const CpuConv small(context_, 300 << 10);
  small.forward(Engine::kWidened, g, o.x, o.w, Tensor(), y);
  allocator->reset_peak();
  const std::int64_t before = allocator->statistics().current[workspace];
  small.forward(Engine::kWidened, g, o.x, o.w, Tensor(), y);
  EXPECT_EQ(allocator->statistics().current[workspace], before);
  EXPECT_LE(allocator->statistics().peak[workspace] - before,
            800 << 10);  // oneDNN's own scratch comes on top
}

TEST_F(ConvRules, EmptyBatchDoesNothing) {
  ConvGeometry g = cube(3, 4, 5);
  g.batch = 0;
  const Tensor x({0, 3, 5, 5, 5}, DType::kF16), y({0, 4, 5, 5, 5}, DType::kF16);
  const Tensor w = random_tensor(weight_shape(g), DType::kF16, 1);
  const Tensor dw = Tensor::zeros(weight_shape(g), DType::kF32);
  for (const Engine engine : {Engine::kDirect, Engine::kWidened, Engine::kTiles}) {
    conv_.forward(engine, g, x, w, Tensor(), y);
    conv_.backward_data(engine, g, y, w, x);
    if (engine != Engine::kTiles) conv_.backward_weights(engine, g, x, y, dw);
  }
  EXPECT_EQ(dw.to_values(), std::vector<double>(static_cast<std::size_t>(dw.numel()), 0.0));
}

TEST_F(ConvRules, ExtremeValuesOfFp16) {
  const ConvGeometry g = geometry(1, 1, 1, 1, {1, 1, 6}, {1, 1, 1});
  const Shape shape{1, 1, 6};
  const double tiny = 0x1p-24;
  const Tensor x = Tensor::from_values(
      shape, std::vector<double>{65504, -65504, tiny, 3 * tiny, kInfinity, NAN}, DType::kF16);
  const Tensor one = Tensor::from_values({1, 1, 1}, std::vector<double>{1}, DType::kF16);
  const Tensor two = Tensor::from_values({1, 1, 1}, std::vector<double>{2}, DType::kF16);
  const Tensor half = Tensor::from_values({1, 1, 1}, std::vector<double>{0.5}, DType::kF16);
  const Tensor y(shape, DType::kF16);
  std::vector<Engine> engines{Engine::kWidened};
  if (has_direct()) engines.push_back(Engine::kDirect);
  for (const Engine engine : engines) {
    conv_.forward(engine, g, x, one, Tensor(), y);
    std::vector<double> got = y.to_values();
    EXPECT_EQ(std::vector<double>(got.begin(), got.begin() + 5),
              (std::vector<double>{65504, -65504, tiny, 3 * tiny, kInfinity}));
    EXPECT_TRUE(std::isnan(got[5]));
    conv_.forward(engine, g, x, two, Tensor(), y);  // above 65520: infinity
    got = y.to_values();
    EXPECT_EQ(got[0], kInfinity);
    EXPECT_EQ(got[1], -kInfinity);
    conv_.forward(engine, g, x, half, Tensor(), y);  // 2^-25 ties to even: 0; 1.5 * 2^-24 ties to 2 * 2^-24
    got = y.to_values();
    EXPECT_EQ(got[2], 0.0);
    EXPECT_EQ(got[3], 2 * tiny);
  }
}

TEST_F(ConvRules, LargeFp16GradientsSumInFp32) {
  // amp.md 3.2: the sum of 2^21 gradients of 2^-5 is 65536, infinite in FP16.
  const ConvGeometry g = geometry(3, 1, 1, 1, {32, 256, 256}, {1, 1, 1});
  const Tensor ones =
      Tensor::from_values(data_shape(g, true), std::vector<double>(1 << 21, 1.0), DType::kF16);
  const Tensor dy =
      Tensor::from_values(data_shape(g, false), std::vector<double>(1 << 21, 0x1p-5), DType::kF16);
  const Tensor dw = Tensor::zeros(weight_shape(g), DType::kF32);
  conv_.backward_weights(g, ones, dy, dw);
  EXPECT_EQ(dw.to_values(), std::vector<double>{65536});
}

TEST_F(ConvRules, DirectEngineGivesTheSameBitsForAnyThreads) {
  if (!has_direct()) GTEST_SKIP() << "own kernels need AVX2";
  for (const ConvGeometry& g : {cube(16, 16, 20, 2), cube(1, 16, 20), cube(33, 17, 7, 2),
                                geometry(1, 1, 24, 40, {1, 1, 5000}, {1, 1, 1})})
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      const Operands o(g, dtype);
      set_compute_threads(1);
      const Results one = compute(conv_, Engine::kDirect, g, o.x, o.w, o.dy);
      for (const int threads : {2, 3}) {
        set_compute_threads(threads);
        EXPECT_TRUE(compute(conv_, Engine::kDirect, g, o.x, o.w, o.dy) == one)
            << threads << " threads, " << to_string(g);
      }
    }
}

TEST_F(ConvRules, RepeatedCallsGiveTheSameBits) {
  const ConvGeometry g = cube(6, 9, 8, 2);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const Operands o(g, dtype);
    const Engine engine = dtype == DType::kF32 ? Engine::kOneDnn : Engine::kWidened;
    const Results first = compute(conv_, engine, g, o.x, o.w, o.dy);
    EXPECT_TRUE(compute(conv_, engine, g, o.x, o.w, o.dy) == first) << name(dtype);
  }
}

TEST_F(ConvRules, PackedWeightsFollowTheVersionOfTheirStorage) {
  const ConvGeometry g = geometry(1, 1, 1, 1, {1, 1, 3}, {1, 1, 1});
  const Tensor x = Tensor::from_values({1, 1, 3}, std::vector<double>{1, 2, 3}, DType::kF32);
  const Tensor y({1, 1, 3}, DType::kF32);
  const Tensor w({1, 1, 1}, DType::kF32, kCpuDevice, MemoryCategory::kWeights);
  const auto product = [&](Engine engine) {
    conv_.forward(engine, g, x, w, Tensor(), y);
    return y.to_values()[0];
  };
  for (const Engine engine : {Engine::kOneDnn, Engine::kDirect}) {
    w.data<float>()[0] = 5;
    w.storage()->mark_changed();
    EXPECT_EQ(product(engine), 5);
    w.data<float>()[0] = 7;
    EXPECT_EQ(product(engine), 5) << "unannounced change: the packed copy is used";
    w.storage()->mark_changed();
    EXPECT_EQ(product(engine), 7);
  }
  EXPECT_EQ(context_.packed.entries(), 2u);
}

TEST_F(ConvRules, OtherTensorsThanWeightsAreNotCached) {
  const ConvGeometry g = geometry(1, 1, 1, 1, {1, 1, 3}, {1, 1, 1});
  const Tensor x = Tensor::from_values({1, 1, 3}, std::vector<double>{1, 2, 3}, DType::kF32);
  const Tensor y({1, 1, 3}, DType::kF32), w({1, 1, 1}, DType::kF32);
  for (const Engine engine : {Engine::kOneDnn, Engine::kDirect})
    for (const float value : {5.0f, 7.0f}) {
      w.data<float>()[0] = value;
      conv_.forward(engine, g, x, w, Tensor(), y);
      EXPECT_EQ(y.to_values()[0], value);
    }
  EXPECT_EQ(context_.packed.entries(), 0u);
}

TEST_F(ConvRules, CopiesOfFreedWeightsAreDroppedAndTheirNumberIsBounded) {
  const ConvGeometry g = geometry(1, 1, 1, 1, {1, 1, 1}, {1, 1, 1});
  const Tensor x = Tensor::from_values({1, 1, 1}, std::vector<double>{1}, DType::kF32),
               y({1, 1, 1}, DType::kF32);
  const auto count = static_cast<std::int64_t>(PackedWeights::kMaxEntries) + 9;
  {
    const Tensor flat({count}, DType::kF32, kCpuDevice, MemoryCategory::kWeights);
    flat.set_zero();
    for (std::int64_t i = 0; i < count; ++i)
      conv_.forward(Engine::kDirect, g, x, Tensor(flat.storage(), i, {1, 1, 1}, DType::kF32, 1), Tensor(), y);
    EXPECT_EQ(context_.packed.entries(), PackedWeights::kMaxEntries);
  }
  const Tensor other({1, 1, 1}, DType::kF32, kCpuDevice, MemoryCategory::kWeights);
  other.set_zero();
  conv_.forward(Engine::kDirect, g, x, other, Tensor(), y);
  EXPECT_EQ(context_.packed.entries(), 1u);
}

TEST_F(ConvRules, WeightsAtTwoOffsetsOfOneStorageAreApart) {
  const ConvGeometry g = geometry(1, 1, 1, 1, {1, 1, 1}, {1, 1, 1});
  const Tensor flat({2}, DType::kF32, kCpuDevice, MemoryCategory::kWeights);
  flat.data<float>()[0] = 3;
  flat.data<float>()[1] = 4;
  flat.storage()->mark_changed();
  const Tensor x = Tensor::from_values({1, 1, 1}, std::vector<double>{1}, DType::kF32),
               y({1, 1, 1}, DType::kF32);
  for (const std::int64_t offset : {0, 1, 0}) {
    conv_.forward(Engine::kDirect, g, x, Tensor(flat.storage(), offset, {1, 1, 1}, DType::kF32, 1), Tensor(),
                  y);
    EXPECT_EQ(y.to_values()[0], 3.0 + static_cast<double>(offset));
  }
}

TEST_F(ConvRules, PrimitivesAreMadeOncePerGeometryAndThreads) {
  const ConvGeometry g = cube(3, 4, 5);
  const Operands o(g, DType::kF32);
  const Tensor y(data_shape(g, false), DType::kF32);
  const std::size_t before = context_.onednn.cached_primitives();
  for (int i = 0; i < 3; ++i) conv_.forward(Engine::kOneDnn, g, o.x, o.w, Tensor(), y);
  EXPECT_EQ(context_.onednn.cached_primitives(), before + 1);
  set_compute_threads(1);
  conv_.forward(Engine::kOneDnn, g, o.x, o.w, Tensor(), y);
  EXPECT_EQ(context_.onednn.cached_primitives(), before + 2);
}

TEST_F(ConvRules, ErrorsOfOneDnnNameTheGeometry) {
  ConvGeometry g = cube(3, 4, 5);
  const Operands o(g, DType::kF32);
  const Tensor y(data_shape(g, false), DType::kF32);
  g.out = {9, 9, 9};  // more than five voxels and a padding of one give
  g.padding = {-3, -3, -3};
  try {
    conv_.forward(Engine::kOneDnn, g, o.x, o.w, Tensor(), y);
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_THAT(error.text(), ::testing::HasSubstr("[1, 3, 5, 5, 5] -> [1, 4, 9, 9, 9], kernel [3, 3, 3]"));
    EXPECT_THAT(error.text(), ::testing::HasSubstr("in F32"));
  }
}

}  // namespace
}  // namespace tandem::testing

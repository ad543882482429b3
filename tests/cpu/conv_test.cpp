// Every engine of the CPU's convolution against double loops: shapes, dtypes, levels.
#include "tests/cpu/conv_oracle.h"

namespace tandem::testing {
namespace {

using Triple = std::array<std::int64_t, 3>;

// out from the other sizes, as PyTorch computes it.
ConvGeometry geometry(int rank, std::int64_t batch, std::int64_t in_channels, std::int64_t out_channels,
                      Triple in, Triple kernel, Triple stride = {1, 1, 1}, Triple padding = {0, 0, 0},
                      Triple dilation = {1, 1, 1}, std::int64_t groups = 1) {
  ConvGeometry g;
  g.spatial_rank = rank;
  g.batch = batch;
  g.in_channels = in_channels;
  g.out_channels = out_channels;
  g.groups = groups;
  g.in = in;
  g.kernel = kernel;
  g.stride = stride;
  g.padding = padding;
  g.dilation = dilation;
  for (std::size_t i = 0; i < 3; ++i)
    g.out[i] = (in[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
  return g;
}

const std::vector<ConvGeometry>& geometries() {
  static const std::vector<ConvGeometry> list = {
      geometry(3, 2, 3, 5, {3, 4, 17}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
      geometry(3, 1, 1, 16, {4, 5, 9}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
      geometry(3, 1, 17, 33, {2, 3, 7}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
      geometry(3, 2, 16, 32, {5, 6, 7}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}),
      geometry(3, 1, 5, 3, {7, 6, 5}, {2, 3, 5}, {2, 1, 3}, {0, 1, 2}),
      geometry(3, 1, 4, 6, {9, 8, 11}, {3, 3, 3}, {1, 1, 1}, {2, 2, 2}, {2, 2, 2}),
      geometry(3, 1, 4, 6, {9, 8, 11}, {3, 2, 3}, {2, 3, 2}, {1, 1, 1}, {1, 2, 3}),
      geometry(3, 2, 16, 6, {3, 3, 17}, {1, 1, 1}),
      geometry(3, 1, 8, 9, {5, 5, 5}, {1, 1, 1}, {2, 2, 2}),
      geometry(3, 1, 5, 17, {1, 1, 1}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
      geometry(3, 2, 6, 9, {4, 4, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 3),
      geometry(3, 1, 5, 5, {4, 3, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 5),
      geometry(2, 2, 33, 16, {1, 9, 17}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),
      geometry(2, 1, 3, 17, {1, 17, 16}, {1, 5, 5}, {1, 2, 2}, {0, 2, 2}),
      geometry(2, 1, 1, 1, {1, 3, 3}, {1, 2, 2}),
      geometry(2, 1, 3, 64, {1, 20, 22}, {1, 7, 7}, {1, 2, 2}, {0, 3, 3}),
      geometry(1, 2, 5, 16, {1, 1, 600}, {1, 1, 5}, {1, 1, 1}, {0, 0, 2}),
      geometry(1, 1, 1, 3, {1, 1, 2}, {1, 1, 2}),
      geometry(1, 1, 3, 1, {1, 1, 17}, {1, 1, 3}, {1, 1, 2}, {0, 0, 2}, {1, 1, 4}),
  };
  return list;
}

struct Tolerance {
  double absolute, relative;
};

// research: reliability-ecosystem.md 3. `terms`: length of the reduction.
Tolerance tolerance(DType stored, double terms) {
  if (stored == DType::kF32) return {1e-6 * std::sqrt(terms), 1e-5};
  return stored == DType::kF16 ? Tolerance{1e-3, 2e-3} : Tolerance{8e-3, 1.6e-2};
}

std::vector<Engine> engines(const Level& level, const ConvGeometry& g, DType dtype) {
  std::vector<Engine> result;
  if (g.groups == 1) result.push_back(Engine::kDirect);
  if (dtype == DType::kF32) result.push_back(Engine::kOneDnn);
  if (dtype != DType::kF32) result.push_back(Engine::kWidened);
  if (dtype == DType::kBF16 && level.target.avx512_bf16) result.push_back(Engine::kOneDnn);
  return result;
}

class ConvEngines : public ::testing::TestWithParam<DType> {
 protected:
  // Calls body(context, conv, geometry, engine, what) for every combination.
  template <class Body>
  void for_all(const Body& body) {
    for (const Level& level : levels()) {
      ConvContext context(level.target, *level.kernels);
      const CpuConv conv(context);
      for (const ConvGeometry& g : geometries())
        for (const Engine engine : engines(level, g, GetParam())) {
          const std::string what = level.name + " " + std::string(tandem::name(engine)) + " " + to_string(g);
          body(conv, g, engine, what);
          if (HasFatalFailure()) return;
        }
    }
  }
};

TEST_P(ConvEngines, Forward) {
  for_all([](const CpuConv& conv, const ConvGeometry& g, Engine engine, const std::string& what) {
    const Tensor x = random_tensor(data_shape(g, true), GetParam(), 1);
    const Tensor w = random_tensor(weight_shape(g), GetParam(), 2);
    const Tensor bias = random_tensor({g.out_channels}, DType::kF32, 3);
    const Tensor y(data_shape(g, false), GetParam());
    Sums sums = oracle(g, Operand::kY, x.to_values(), w.to_values(), y.to_values());
    const Tolerance t = tolerance(GetParam(), static_cast<double>(g.taps() * g.in_channels));
    conv.forward(engine, g, x, w, Tensor(), y);
    expect_close(y.to_values(), sums.value, t.absolute, t.relative, what);
    const std::vector<double> b = bias.to_values();
    for (std::size_t i = 0; i < sums.value.size(); ++i)
      sums.value[i] += b[i / static_cast<std::size_t>(volume(g.out)) % b.size()];
    conv.forward(engine, g, x, w, bias, y);
    expect_close(y.to_values(), sums.value, t.absolute, t.relative, what + " with bias");
  });
}

TEST_P(ConvEngines, DataGradient) {
  for_all([](const CpuConv& conv, const ConvGeometry& g, Engine engine, const std::string& what) {
    const Tensor dy = random_tensor(data_shape(g, false), GetParam(), 1);
    const Tensor w = random_tensor(weight_shape(g), GetParam(), 2);
    const Tensor dx(data_shape(g, true), GetParam());
    const Sums sums = oracle(g, Operand::kX, dx.to_values(), w.to_values(), dy.to_values());
    const Tolerance t = tolerance(GetParam(), static_cast<double>(g.taps() * g.out_channels));
    conv.backward_data(engine, g, dy, w, dx);
    expect_close(dx.to_values(), sums.value, t.absolute, t.relative, what);
  });
}

TEST_P(ConvEngines, WeightGradientAccumulatesInFp32) {
  for_all([](const CpuConv& conv, const ConvGeometry& g, Engine engine, const std::string& what) {
    const Tensor x = random_tensor(data_shape(g, true), GetParam(), 1);
    const Tensor dy = random_tensor(data_shape(g, false), GetParam(), 2);
    const Tensor dw = random_tensor(weight_shape(g), DType::kF32, 3);
    const std::vector<double> before = dw.to_values();
    Sums sums = oracle(g, Operand::kW, x.to_values(), before, dy.to_values());
    for (std::size_t i = 0; i < before.size(); ++i) sums.value[i] += before[i];
    const Tolerance t = tolerance(DType::kF32, static_cast<double>(g.batch * volume(g.out)));
    conv.backward_weights(engine, g, x, dy, dw);
    expect_close(dw.to_values(), sums.value, t.absolute, t.relative, what);
  });
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ConvEngines, ::testing::Values(DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tandem::testing

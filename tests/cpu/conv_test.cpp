// Every engine of the CPU's convolution against double loops: shapes, dtypes, levels.
#include "tests/cpu/conv_oracle.h"

namespace tandem::testing {
namespace {

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

std::vector<Engine> engines(const CpuTarget& target, ConvPass pass, const ConvGeometry& g, DType dtype) {
  std::vector<Engine> result;
  if (g.groups == 1) result.push_back(Engine::kDirect);
  if (dtype == DType::kF32) result.push_back(Engine::kOneDnn);
  if (dtype != DType::kF32) result.push_back(Engine::kWidened);
  const std::int64_t summed = pass == ConvPass::kForward ? g.in_channels : g.out_channels;
  if (dtype == DType::kF16 && g.groups == 1 && pass != ConvPass::kBackwardWeights && summed % 2 == 0)
    result.push_back(Engine::kTiles);
  if (dtype == DType::kBF16 && target.avx512_bf16) result.push_back(Engine::kOneDnn);
  return result;
}

class ConvEngines : public ::testing::TestWithParam<DType> {
 protected:
  ConvEngines() {
    for (const Level& level : levels()) {
      names_.push_back(level.name);
      contexts_.push_back(std::make_unique<ConvContext>(level.target, *level.kernels));
    }
  }

  // Calls body(conv, engine, what) for every level and engine that can compute g.
  template <class Body>
  void for_engines(ConvPass pass, const ConvGeometry& g, const Body& body) {
    for (std::size_t i = 0; i < contexts_.size(); ++i)
      for (const Engine engine : engines(contexts_[i]->target, pass, g, GetParam())) {
        body(CpuConv(*contexts_[i]), engine,
             names_[i] + " " + std::string(tandem::name(engine)) + " " + to_string(g));
        if (HasFatalFailure()) return;
      }
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<ConvContext>> contexts_;
};

TEST_P(ConvEngines, Forward) {
  for (const ConvGeometry& g : geometries()) {
    const Tensor x = random_tensor(data_shape(g, true), GetParam(), 1);
    const Tensor w = random_tensor(weight_shape(g), GetParam(), 2);
    const Tensor bias = random_tensor({g.out_channels}, DType::kF32, 3);
    const Tensor y(data_shape(g, false), GetParam());
    const Sums sums = oracle(g, Operand::kY, x.to_values(), w.to_values(), y.to_values());
    std::vector<double> with_bias = sums.value;
    const std::vector<double> b = bias.to_values();
    for (std::size_t i = 0; i < with_bias.size(); ++i)
      with_bias[i] += b[i / static_cast<std::size_t>(volume(g.out)) % b.size()];
    const Tolerance t = tolerance(GetParam(), static_cast<double>(g.taps() * g.in_channels));
    for_engines(ConvPass::kForward, g, [&](const CpuConv& conv, Engine engine, const std::string& what) {
      conv.forward(engine, g, x, w, Tensor(), y);
      expect_close(y.to_values(), sums.value, t.absolute, t.relative, what);
      conv.forward(engine, g, x, w, bias, y);
      expect_close(y.to_values(), with_bias, t.absolute, t.relative, what + " with bias");
    });
  }
}

TEST_P(ConvEngines, DataGradient) {
  for (const ConvGeometry& g : geometries()) {
    const Tensor dy = random_tensor(data_shape(g, false), GetParam(), 1);
    const Tensor w = random_tensor(weight_shape(g), GetParam(), 2);
    const Tensor dx(data_shape(g, true), GetParam());
    const Sums sums = oracle(g, Operand::kX, dx.to_values(), w.to_values(), dy.to_values());
    const Tolerance t = tolerance(GetParam(), static_cast<double>(g.taps() * g.out_channels));
    for_engines(ConvPass::kBackwardData, g, [&](const CpuConv& conv, Engine engine, const std::string& what) {
      conv.backward_data(engine, g, dy, w, dx);
      expect_close(dx.to_values(), sums.value, t.absolute, t.relative, what);
    });
  }
}

TEST_P(ConvEngines, WeightGradientAccumulatesInFp32) {
  for (const ConvGeometry& g : geometries()) {
    const Tensor x = random_tensor(data_shape(g, true), GetParam(), 1);
    const Tensor dy = random_tensor(data_shape(g, false), GetParam(), 2);
    const Tensor start = random_tensor(weight_shape(g), DType::kF32, 3);
    Sums sums = oracle(g, Operand::kW, x.to_values(), start.to_values(), dy.to_values());
    const std::vector<double> before = start.to_values();
    for (std::size_t i = 0; i < before.size(); ++i) sums.value[i] += before[i];
    const Tolerance t = tolerance(DType::kF32, static_cast<double>(g.batch * volume(g.out)));
    for_engines(ConvPass::kBackwardWeights, g,
                [&](const CpuConv& conv, Engine engine, const std::string& what) {
                  const Tensor dw = start.clone();
                  conv.backward_weights(engine, g, x, dy, dw);
                  expect_close(dw.to_values(), sums.value, t.absolute, t.relative, what);
                });
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ConvEngines, ::testing::Values(DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tandem::testing

// Windows at random: strides past the kernel, padding past its half, inputs smaller than the kernel. oneDNN's
// kernels for AVX-512 and AMX are wrong on many of them (onednn.h), so what is chosen there is compared with
// own kernels, and with double loops where there are groups.
#include <optional>
#include <random>

#include "tests/cpu/conv_oracle.h"

namespace tandem::testing {
namespace {

constexpr int kWindows = 200;

int draw(std::mt19937& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
}

// Nothing where the kernel is larger than the padded input.
std::optional<ConvGeometry> random_window(std::mt19937& random) {
  constexpr int kChannels[] = {1, 4, 5, 8, 15, 16, 17, 24, 32, 33, 40};
  const int rank = draw(random, 1, 3);
  const bool dilated = draw(random, 0, 4) == 0;
  Triple in{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  for (std::size_t axis = static_cast<std::size_t>(3 - rank); axis < 3; ++axis) {
    in[axis] = draw(random, 1, 9);
    kernel[axis] = draw(random, 0, 1) == 0 ? 3 : draw(random, 1, 7);
    stride[axis] = draw(random, 1, 3);
    dilation[axis] = dilated ? draw(random, 1, 3) : 1;
    const std::int64_t reach = (kernel[axis] - 1) * dilation[axis] + 1;
    padding[axis] = draw(random, 0, static_cast<int>(reach) - 1);
    if (in[axis] + 2 * padding[axis] < reach) return std::nullopt;
  }
  const int groups = draw(random, 0, 7) == 0 ? 2 : 1;
  const auto channels = [&] { return groups * kChannels[draw(random, 0, std::ssize(kChannels) - 1)]; };
  const std::int64_t in_channels = channels(), out_channels = channels();
  return geometry(rank, draw(random, 1, 2), in_channels, out_channels, in, kernel, stride, padding, dilation,
                  groups);
}

struct Operands {
  Tensor x, w, dy;
};

// y, dx or dw of one engine. The results start as NaN where they are overwritten.
std::vector<double> computed(const CpuConv& conv, Engine engine, ConvPass pass, const ConvGeometry& g,
                             const Operands& of) {
  const auto unset = [&](bool input) {
    const Shape shape = data_shape(g, input);
    return Tensor::from_values(shape, std::vector<double>(static_cast<std::size_t>(shape.numel()), NAN),
                               of.x.dtype());
  };
  if (pass == ConvPass::kForward) {
    const Tensor y = unset(false);
    conv.forward(engine, g, of.x, of.w, Tensor(), y);
    return y.to_values();
  }
  if (pass == ConvPass::kBackwardData) {
    const Tensor dx = unset(true);
    conv.backward_data(engine, g, of.dy, of.w, dx);
    return dx.to_values();
  }
  const Tensor dw = Tensor::zeros(weight_shape(g), DType::kF32);
  conv.backward_weights(engine, g, of.x, of.dy, dw);
  return dw.to_values();
}

std::vector<double> expected(const CpuConv& conv, ConvPass pass, const ConvGeometry& g, const Operands& of) {
  if (g.groups == 1) return computed(conv, Engine::kDirect, pass, g, of);
  const Operand target = pass == ConvPass::kForward        ? Operand::kY
                         : pass == ConvPass::kBackwardData ? Operand::kX
                                                           : Operand::kW;
  return oracle(g, target, of.x.to_values(), of.w.to_values(), of.dy.to_values()).value;
}

class ConvWindows : public ::testing::TestWithParam<DType> {};

TEST_P(ConvWindows, ChosenEnginesAgreeWithOwnKernels) {
  const CpuTarget target = cpu_target();
  ConvContext context(target);
  const CpuConv conv(context);
  std::mt19937 random(20261201);
  const double tolerance = GetParam() == DType::kF32 ? 1e-4 : GetParam() == DType::kF16 ? 3e-3 : 2e-2;
  for (int n = 0; n < kWindows; ++n) {
    const std::optional<ConvGeometry> g = random_window(random);
    if (!g) continue;
    const Operands of{random_tensor(data_shape(*g, true), GetParam(), 1),
                      random_tensor(weight_shape(*g), GetParam(), 2),
                      random_tensor(data_shape(*g, false), GetParam(), 3)};
    for (const ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardData, ConvPass::kBackwardWeights}) {
      const double scale = pass == ConvPass::kBackwardWeights ? 1e-4 : tolerance;
      const std::vector<double> right = expected(conv, pass, *g, of);
      // The chosen one, and oneDNN whatever is chosen: it must know what it is not good at.
      const Engine chosen = choose_conv_engine(pass, *g, GetParam(), target);
      const Engine library = GetParam() == DType::kF32 ? Engine::kOneDnn : Engine::kWidened;
      for (const Engine engine : {chosen, library})
        expect_close(computed(conv, engine, pass, *g, of), right, scale, scale,
                     std::string(name(engine)) + " pass " + std::to_string(static_cast<int>(pass)) + " " +
                         to_string(*g));
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ConvWindows, ::testing::Values(DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tandem::testing

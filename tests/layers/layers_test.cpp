// The layers: shapes, initialisation, wrong options, and FP32 layers between 16-bit ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/base/error.h"
#include "core/ops/loss.h"
#include "layers/conv.h"
#include "layers/linear.h"
#include "layers/norm.h"
#include "tests/refs/ref_file.h"

namespace tandem {
namespace {

using testing::HasSubstr;

const Context kReference{.device = kReferenceDevice, .compute = DType::kF64, .seed = 3};

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kShape);
    return error.what();
  }
  return "no error";
}

std::vector<Shape> shapes_of(Module& module) {
  std::vector<Shape> shapes;
  for (const NamedParameter& p : module.parameters()) shapes.push_back(p.parameter->shape());
  return shapes;
}

// PyTorch's shapes, its transposed convolution's order included.
TEST(Layers, ParametersHavePyTorchsShapes) {
  Conv conv({.dims = 3, .in = 4, .out = 6, .kernel = {1, 3, 5}, .groups = 2});
  EXPECT_EQ(shapes_of(conv), (std::vector<Shape>{{6, 2, 1, 3, 5}, {6}}));
  Conv line({.dims = 1, .in = 4, .out = 6, .kernel = 3, .bias = false});
  EXPECT_EQ(shapes_of(line), (std::vector<Shape>{{6, 4, 3}}));
  ConvTranspose up({.dims = 2, .in = 8, .out = 6, .kernel = {9, 2, 3}, .groups = 2});
  EXPECT_EQ(shapes_of(up), (std::vector<Shape>{{8, 3, 2, 3}, {6}}));
  Linear linear({.in = 5, .out = 7});
  EXPECT_EQ(shapes_of(linear), (std::vector<Shape>{{7, 5}, {7}}));
  InstanceNorm norm({.channels = 9});
  EXPECT_EQ(shapes_of(norm), (std::vector<Shape>{{9}, {9}}));
}

TEST(Layers, OutputShapesFollowTheFormulas) {
  Tape tape(kReference);
  const auto input = [&](const Shape& shape) {
    return tape.constant(
        Tensor::from_values(shape, tests::filled(shape.numel(), 1, 1), DType::kF64, kReferenceDevice));
  };
  Conv conv({.in = 2, .out = 3, .kernel = 3, .stride = {1, 2, 2}, .padding = 1, .dilation = {1, 1, 2}});
  const ParamStore s1(conv.parameters(), kReference, {});
  const Var convolved = conv(input({2, 2, 5, 7, 9}));
  EXPECT_EQ(convolved.shape(), (Shape{2, 3, 5, 4, 4}));
  ConvTranspose up({.in = 3, .out = 2, .kernel = {1, 2, 2}, .stride = {1, 2, 2}});
  const ParamStore s2(up.parameters(), kReference, {});
  const Var upsampled = up(convolved);
  EXPECT_EQ(upsampled.shape(), (Shape{2, 2, 5, 8, 8}));
  ConvTranspose odd(
      {.dims = 2, .in = 2, .out = 2, .kernel = 3, .stride = 2, .padding = 1, .output_padding = 1});
  const ParamStore s3(odd.parameters(), kReference, {});
  const Var twice = odd(input({1, 2, 5, 6}));
  EXPECT_EQ(twice.shape(), (Shape{1, 2, 10, 12}));
}

// PyTorch: weights uniform in +-1/sqrt(fan_in), biases too; fan_in of [K, C, taps] is C * taps.
TEST(Layers, StartAsPyTorchsLayers) {
  const auto largest = [](const Parameter& p) {
    double value = 0;
    for (const double v : initial_values(p, 11, 0)) value = std::max(value, std::abs(v));
    return value;
  };
  Conv conv({.in = 8, .out = 64, .kernel = 3});
  ConvTranspose up({.in = 64, .out = 16, .kernel = 2});
  Linear linear({.in = 300, .out = 400});
  const struct {
    Module& module;
    double fan_in;
  } rows[] = {{conv, 8 * 27}, {up, 16 * 8}, {linear, 300}};
  for (const auto& row : rows) {
    const double bound = 1 / std::sqrt(row.fan_in);
    const auto parameters = row.module.parameters();
    EXPECT_LE(largest(*parameters[0].parameter), bound * (1 + 1e-12));
    EXPECT_GT(largest(*parameters[0].parameter), 0.999 * bound);
    EXPECT_LE(largest(*parameters[1].parameter), bound);
    EXPECT_GT(largest(*parameters[1].parameter), 0.8 * bound);
  }
}

TEST(Layers, NormStartsAsScaleOneAndShiftZero) {
  InstanceNorm norm({.channels = 3});
  const ParamStore store(norm.parameters(), kReference, {});
  EXPECT_EQ(norm.parameters()[0].parameter->value().to_values(), std::vector<double>(3, 1.0));
  EXPECT_EQ(norm.parameters()[1].parameter->value().to_values(), std::vector<double>(3, 0.0));
}

TEST(Layers, OptionsThatMakeNoLayerAreRefused) {
  EXPECT_EQ(error_of([] { Conv({.in = 3, .out = 4, .groups = 2}); }),
            "[conv] channels and groups do not fit: got in = 3, out = 4, groups = 2, expected positive "
            "multiples of "
            "groups.");
  EXPECT_EQ(error_of([] { Conv({.dims = 4, .in = 3, .out = 4}); }),
            "[conv] wrong number of dimensions: got dims = 4, expected 1, 2 or 3.");
  EXPECT_EQ(error_of([] {
              ConvTranspose({.in = 3, .out = 4, .kernel = {2, 0, 2}});
            }),
            "[conv_transpose] a kernel without taps: got [2, 0, 2], expected sizes of 1 or more.");
  EXPECT_EQ(error_of([] { Linear({.in = 0, .out = 4}); }),
            "[linear] no features: got in = 0, out = 4, expected 1 or more.");
  EXPECT_EQ(error_of([] { InstanceNorm({}); }), "[instance_norm] no channels: got 0, expected 1 or more.");
}

struct ThreeConvs : Module {
  Conv a, b, c;
  ThreeConvs()
      : a({.dims = 2, .in = 1, .out = 4, .kernel = 3, .padding = 1}),
        b({.dims = 2, .in = 4, .out = 4, .kernel = 3, .padding = 1}),
        c({.dims = 2, .in = 4, .out = 2, .kernel = 1}) {
    add("a", a);
    add("b", b);
    add("c", c);
  }
  std::vector<DType> dtypes;
  Outputs forward(const Var& x) override {
    const Var first = a(x), second = b(first), third = c(second);
    dtypes = {first.dtype(), second.dtype(), third.dtype()};
    return third;
  }
};

// fp32_layers: the layer casts what comes in, the next one casts back; the gradient crosses both casts.
TEST(Layers, AnFp32LayerWorksBetween16BitOnes) {
  const Context context{.device = kCpuDevice, .compute = DType::kF16, .seed = 3};
  ThreeConvs net, plain;
  ParamStore store(net.parameters(), context, {DType::kF16, {"b"}});
  const ParamStore fp32(plain.parameters(), context, {DType::kF32});
  const Tensor image = Tensor::from_values(Shape{1, 1, 6, 6}, tests::filled(36, 1, 1), DType::kF32);
  const Tensor labels = Tensor::zeros(Shape{1, 1, 6, 6}, DType::kI32);
  std::vector<std::vector<double>> gradients;
  for (ThreeConvs* model : {&net, &plain}) {
    Tape tape(context);
    const Var logits = (*model)(tape.constant(image));
    tape.backward(cross_entropy(logits, tape.constant(labels)));
    gradients.push_back(model->parameters()[2].parameter->gradient().to_values());
  }
  EXPECT_EQ(net.dtypes, (std::vector<DType>{DType::kF16, DType::kF32, DType::kF16}));
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    largest = std::max(largest, std::abs(gradients[1][i]));
    error = std::max(error, std::abs(gradients[0][i] - gradients[1][i]));
  }
  EXPECT_GT(largest, 0);
  EXPECT_LT(error, 4e-3 * largest);
  EXPECT_GT(error, 0);  // 16 bits were used
}

}  // namespace
}  // namespace tandem

// Blocks of convolution, dropout, norm and activation in unet3d, and the words of activations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "layers/models/unet3d.h"

namespace tandem {
namespace {

using testing::ElementsAre;
using Values = std::vector<double>;

std::vector<std::string> first_stage(const UNet3dOptions& options) {
  UNet3d net(options, 1, 2);
  std::vector<std::string> names;
  for (const NamedParameter& p : net.parameters())
    if (p.name.starts_with("enc0.")) names.push_back(p.name.substr(5));
  return names;
}

TEST(Blocks, NormAndActivationDecideTheParameters) {
  EXPECT_THAT(first_stage({.features = {4, 8}, .norm = "none", .activation = "gelu"}),
              ElementsAre("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias"));
  EXPECT_THAT(first_stage({.features = {4, 8}, .norm = "group:2", .activation = "prelu"}),
              ElementsAre("conv1.weight", "conv1.bias", "norm1.weight", "norm1.bias", "act1.weight",
                          "conv2.weight", "conv2.bias", "norm2.weight", "norm2.bias", "act2.weight"));
  UNet3d batch({.features = {4, 8}, .norm = "batch"}, 1, 2);
  EXPECT_EQ(batch.buffers().front().name, "enc0.norm1.running_mean");
  EXPECT_EQ(batch.buffers().size(), 6u * 3);
}

// Every choice computes, forward and backward, and reaches every parameter that is used.
TEST(Blocks, EveryNormAndActivationTrains) {
  for (const std::string norm : {"instance", "batch", "group:2", "none"})
    for (const std::string activation : {"none", "relu", "leaky_relu:0.1", "prelu", "elu", "elu:0.5", "gelu",
                                         "gelu_tanh", "silu", "sigmoid", "tanh", "softplus"}) {
      UNet3d net({.features = {2, 4}, .norm = norm, .activation = activation, .dropout = 0.1}, 1, 2);
      const Context context{.device = kReferenceDevice, .compute = DType::kF64, .seed = 3};
      const ParamStore store(net.parameters(), context, {});
      Tape tape(context);
      Values values(64);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 11) / 5 - 1;
      const Var y =
          net(tape.constant(Tensor::from_values({1, 1, 4, 4, 4}, values, DType::kF64, kReferenceDevice)));
      tape.backward(sum(mul(y, y)));
      for (const NamedParameter& p : net.parameters()) {
        double size = 0;
        for (const double g : p.parameter->gradient().to_values()) size += std::abs(g);
        EXPECT_TRUE(std::isfinite(size)) << norm << " " << activation << " " << p.name;
        if (p.name.starts_with("head1") || (norm != "none" && p.name.ends_with("conv1.bias"))) continue;
        if (p.name.find("conv") != std::string::npos && p.name.ends_with(".bias")) continue;
        EXPECT_GT(size, 0) << norm << " " << activation << " " << p.name;
      }
    }
}

TEST(Activations, WordsOfAJobFile) {
  EXPECT_EQ(parse_activation("leaky_relu")->slope, 0.01);
  EXPECT_EQ(parse_activation("leaky_relu:0.2")->slope, 0.2);
  EXPECT_EQ(parse_activation("elu")->slope, 1);
  EXPECT_EQ(parse_activation("elu:0.5")->slope, 0.5);
  EXPECT_TRUE(parse_activation("prelu")->is_learned);
  EXPECT_EQ(parse_activation("gelu_tanh")->kind, Activation::kGeluTanh);
  for (const char* wrong : {"", "swish", "relu:1", "leaky_relu:", "leaky_relu:0", "leaky_relu:1", "elu:-1",
                            "elu:nan", "gelu:2", "prelu:0.1", "leaky_relu:0.1:2"})
    EXPECT_FALSE(parse_activation(wrong).has_value()) << wrong;
}

// The draw is keyed by seed, forward pass and op; evaluation draws nothing.
TEST(Dropout, IsKeyedByPassAndOp) {
  const Values ones(1000, 1.0);
  const auto masks = [&](std::uint64_t seed, std::uint64_t draw) {
    Tape tape({.seed = seed, .draw = draw});
    const Var x = tape.constant(Tensor::from_values(Shape{1, 1000}, ones, DType::kF32));
    return std::pair{dropout(x, 0.5).value().to_values(), dropout(x, 0.5).value().to_values()};
  };
  const auto first = masks(1, 0);
  EXPECT_EQ(masks(1, 0), first);
  EXPECT_NE(first.first, first.second) << "two dropouts of one pass";
  EXPECT_NE(masks(1, 1).first, first.first) << "another pass";
  EXPECT_NE(masks(2, 0).first, first.first) << "another seed";
  const auto kept = std::ranges::count(first.first, 2.0);
  EXPECT_NEAR(static_cast<double>(kept), 500, 80);  // 5 sigma
  Tape tape({.training = false});
  const Var x = tape.constant(Tensor::from_values(Shape{1, 1000}, ones, DType::kF32));
  EXPECT_EQ(dropout(x, 0.5).value().to_values(), ones);
}

}  // namespace
}  // namespace tandem

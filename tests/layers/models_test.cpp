// The models of the table: parameter counts, names, options and what they say about a wrong input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/base/error.h"
#include "layers/models/model_table.h"
#include "layers/models/sample_cnn.h"
#include "layers/models/unet3d.h"

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Context kReference{.device = kReferenceDevice, .compute = DType::kF64, .seed = 3};

std::string error_of(const std::function<void()>& action, ErrorKind kind) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

std::int64_t count(Module& module) {
  std::int64_t total = 0;
  for (const NamedParameter& p : module.parameters()) total += p.parameter->shape().numel();
  return total;
}

// medical.md 2.1 A, all heads included.
TEST(UNet3d, HasNnunetsParameterCounts) {
  const struct {
    std::vector<std::int64_t> features;
    std::int64_t in, classes, parameters;
  } rows[] = {{{8, 16, 32}, 1, 6, 85484},
              {{16, 32, 64}, 1, 6, 340172},
              {{16, 32, 64, 128}, 1, 6, 1402642},
              {{32, 64, 128, 256, 320, 320}, 1, 2, 31195594},
              {{32, 64, 128, 256, 320, 320}, 1, 3, 31196399},
              {{32, 64, 128, 256, 320, 320}, 4, 4, 31199796}};
  for (const auto& row : rows) {
    UNet3d net({.features = row.features}, row.in, row.classes);
    EXPECT_EQ(count(net), row.parameters);
  }
}

TEST(UNet3d, ParametersComeInTheDocumentedOrder) {
  UNet3d net({.features = {2, 4, 8}}, 1, 2);
  std::vector<std::string> modules, first;
  for (const NamedParameter& p : net.parameters()) {
    const std::string module = p.name.substr(0, p.name.find('.'));
    if (modules.empty() || modules.back() != module) modules.push_back(module);
    if (module == "enc0") first.push_back(p.name);
  }
  EXPECT_THAT(modules, ElementsAre("enc0", "enc1", "enc2", "up1", "dec1", "up0", "dec0", "head0", "head1"));
  EXPECT_THAT(first,
              ElementsAre("enc0.conv1.weight", "enc0.conv1.bias", "enc0.norm1.weight", "enc0.norm1.bias",
                          "enc0.conv2.weight", "enc0.conv2.bias", "enc0.norm2.weight", "enc0.norm2.bias"));
}

// nnU-Net's InitWeights_He(1e-2): Kaiming normal, variance 2 / (1.0001 fan_in), transposed convolutions and
// heads included; biases 0.
TEST(UNet3d, StartsAsNnunet) {
  UNet3d net({.features = {16, 32, 32}}, 1, 6);
  const ParamStore store(net.parameters(), {.seed = 4}, {});
  for (const NamedParameter& p : net.parameters()) {
    const Shape& shape = p.parameter->shape();
    const std::vector<double> values = p.parameter->master().to_values();
    double squares = 0;
    for (const double v : values) squares += v * v;
    const bool is_scale = p.name.find("norm") != std::string::npos && p.name.ends_with("weight");
    const auto n = static_cast<double>(values.size());
    const double expected =
        shape.rank() > 1 ? 2 / 1.0001 / static_cast<double>(shape.numel() / shape[0]) : is_scale;
    EXPECT_NEAR(squares / n, expected, 5 * expected * std::sqrt(2 / n) * (shape.rank() > 1)) << p.name;
  }
}

TEST(UNet3d, OutputHasTheInputsSizeAndOneChannelPerClass) {
  UNet3d net({.features = {2, 4, 4},
              .strides = {{{1, 1, 1}, {1, 2, 2}, {2, 2, 2}}},
              .kernels = {{{1, 3, 3}, {3, 3, 3}, {3, 3, 3}}}},
             2, 3);
  const ParamStore store(net.parameters(), kReference, {});
  Tape tape(kReference, false);
  const Var y = net(tape.constant(Tensor::zeros(Shape{1, 2, 4, 8, 12}, DType::kF64, kReferenceDevice)));
  EXPECT_EQ(y.shape(), (Shape{1, 3, 4, 8, 12}));
}

TEST(UNet3d, ASizeThatDoesNotDivideSaysWhatToSet) {
  UNet3d net({.features = {2, 4, 4}, .strides = {{{1, 1, 1}, {1, 2, 2}, {2, 2, 2}}}}, 1, 2);
  const ParamStore store(net.parameters(), kReference, {});
  Tape tape(kReference, false);
  const auto run = [&](const Shape& shape) {
    return error_of([&] { net(tape.constant(Tensor::zeros(shape, DType::kF64, kReferenceDevice))); },
                    ErrorKind::kShape);
  };
  EXPECT_EQ(
      run({1, 1, 4, 10, 8}),
      "[unet3d] the input does not divide by the strides: got [1, 1, 4, 10, 8], expected depth, height and "
      "width to be multiples of 2, 4 and 4. Set patch.size: [4, 12, 8], or fewer stages or smaller "
      "model.strides.");
  EXPECT_THAT(run({1, 1, 0, 8, 8}), HasSubstr("Set patch.size: [2, 8, 8]"));
  EXPECT_EQ(run({1, 1, 8, 8}),
            "[unet3d] the input is not a batch of volumes: got [1, 1, 8, 8], expected [N, C, D, H, W].");
}

TEST(UNet3d, WrongOptionsAreRefusedInCodeAndInAFile) {
  const auto in_code = [](const UNet3dOptions& options) {
    return error_of([&] { UNet3d(options, 1, 2); }, ErrorKind::kConfig);
  };
  EXPECT_EQ(in_code({.features = {8}}), "[unet3d] model.features: got 1 stages, expected 2 or more.");
  EXPECT_EQ(in_code({.features = {8, 16}, .strides = {{{1, 1, 1}}}}),
            "[unet3d] model.strides: got 1 entries, expected 2: one per stage of features.");
  EXPECT_THAT(in_code({.features = {8, 16}, .strides = {{{1, 2, 2}, {2, 2, 2}}}}),
              HasSubstr("got a first stage that shrinks the volume, expected [1, 1, 1]"));
  EXPECT_EQ(in_code({.features = {8, 16}, .kernels = {{{3, 3, 3}, {2, 3, 3}}}}),
            "[unet3d] model.kernels: got 2, expected odd sizes.");
  EXPECT_THAT(in_code({.activation = "swish"}),
              HasSubstr("model.activation: got 'swish', expected none, relu, leaky_relu:"));
  EXPECT_EQ(in_code({.features = {8, 12}, .norm = "group:8"}),
            "[unet3d] model.norm: got 'group:8' with features [8, 12], expected a divisor of each.");
  EXPECT_EQ(in_code({.norm = "layer"}),
            "[unet3d] model.norm: got 'layer', expected instance, batch, group:N or none.");
  EXPECT_EQ(in_code({.dropout = 1}), "[unet3d] model.dropout: got 1, expected 0 or more, less than 1.");
  EXPECT_THAT(in_code({.activation = "leaky_relu:1.5"}), HasSubstr("model.activation"));
  EXPECT_THAT(error_of(
                  [] {
                    UNet3d({.features = {8, 16}}, 0, 2);
                  },
                  ErrorKind::kConfig),
              HasSubstr("got 0 input channels and 2 classes"));
}

ModelOptions parsed(const std::string& yaml) {
  ModelOptions options;
  parse_options(parse_yaml_text(yaml, "job.yaml"), fields(options));
  return options;
}

TEST(ModelTable, ReadsTheOptionsOfTheNamedModel) {
  const ModelOptions options = parsed(
      "name: unet3d\nfeatures: [16, 32, 64]\nstrides: null\nkernels: [[1, 3, 3], [3, 3, 3], [3, 3, "
      "3]]\nnorm: "
      "instance\nactivation: leaky_relu:0.02\n");
  EXPECT_EQ(options.unet3d.features, (std::vector<std::int64_t>{16, 32, 64}));
  EXPECT_FALSE(options.unet3d.strides.has_value());
  EXPECT_EQ(options.unet3d.kernel(0), (std::array<std::int64_t, 3>{1, 3, 3}));
  EXPECT_EQ(options.unet3d.activation, "leaky_relu:0.02");
  EXPECT_EQ(model_traits(options).size_multiple, (std::array<std::int64_t, 3>{4, 4, 4}));
  EXPECT_EQ(count(*make_model(options, 1, 6)), 340172 - (16 * 18 + 16 * 16 * 18 + (32 * 16 + 16 * 16) * 18));
}

TEST(ModelTable, FileErrorsHaveTheirPlace) {
  const auto error = [](const std::string& yaml) {
    return error_of([&] { parsed(yaml); }, ErrorKind::kConfig);
  };
  EXPECT_THAT(error("name: unet3\n"), HasSubstr("unet3d"));
  EXPECT_THAT(error("name: sample_cnn\nfeatures: [1, 2]\n"), HasSubstr("features"));
  EXPECT_THAT(error("name: unet3d\nfeatures: [8, 16]\nkernels: [[3, 3, 3]]\n"), HasSubstr("job.yaml:3"));
  EXPECT_THAT(error("name: unet3d\nactivation: swish\n"), HasSubstr("expected none, relu, leaky_relu:SLOPE"));
}

TEST(ModelTable, AnUnknownNameListsTheKnownOnes) {
  EXPECT_EQ(error_of([] { make_model({.name = "unet"}, 1, 2); }, ErrorKind::kConfig),
            "[model] unknown model.name: got 'unet', expected one of unet3d, unet3d_cicek, sample_cnn. Did "
            "you mean 'unet3d'?");
}

TEST(ModelTable, EveryRowMakesItsModel) {
  for (const std::string& name : model_names()) {
    ModelOptions options{.name = name};
    EXPECT_GT(count(*make_model(options, 1, 10)), 400000) << name;
    EXPECT_EQ(model_traits(options).is_dense, name != "sample_cnn");
  }
}

TEST(SampleCnn, HasLenetsParameterCount) {
  SampleCnn net(1, 10);
  EXPECT_EQ(count(net), 431080);
}

TEST(SampleCnn, AnotherImageSizeIsRefused) {
  SampleCnn net(1, 10);
  const ParamStore store(net.parameters(), kReference, {});
  Tape tape(kReference, false);
  EXPECT_EQ(error_of(
                [&] {
                  net(tape.constant(Tensor::zeros(Shape{1, 1, 32, 28}, DType::kF64, kReferenceDevice)));
                },
                ErrorKind::kShape),
            "[sample_cnn] wrong image size: got [1, 1, 32, 28], expected [N, C, 28, 28]. Resize the images, "
            "or choose "
            "another model.name.");
}

}  // namespace
}  // namespace tandem

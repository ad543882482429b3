// Abort texts of real overflows (amp.md 4: C1, C2, C31): the layer, the pass and the magnitude are named, and
// the layer that the text proposes for FP32 does cure the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/tensor/finite.h"
#include "tests/data/test_files.h"
#include "tests/train/numerics_fixture.h"

namespace tandem {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using tests::Net;

const std::vector<std::string> kConvolutions{"enc0.conv1", "enc0.conv2", "enc1.conv1", "enc1.conv2",
                                             "up0",        "dec0.conv1", "dec0.conv2", "head0"};

// C1: NaN in one weight ends the run at step 5 (five losses in a row), not after endless halvings.
TEST(Remedies, C1ANanInAWeightEndsTheRunAtStep5AndNamesTheLayer) {
  for (const std::string& layer : kConvolutions) {
    Net net;
    net.scale_weight(layer + ".weight", std::nanf(""), false);
    int steps = 0;
    const std::string text = net.text_of_abort(&steps);
    EXPECT_EQ(steps, 5) << layer;
    EXPECT_EQ(net.trainer->state().scale, 65536) << layer;
    EXPECT_THAT(text, HasSubstr("first not finite: forward, layer " + layer + ", op conv")) << layer;
    EXPECT_THAT(text, HasSubstr(layer + ".weight at [0, 0, 0, 0, 0] = nan")) << layer;
    EXPECT_THAT(text, HasSubstr("1. a checkpoint whose weights are finite:    --resume ")) << layer;
    EXPECT_THAT(text, Not(HasSubstr("precision."))) << "no format holds NaN: " << layer;
  }
}

// The factor that makes the largest magnitude of a weight 60000: FP16 still holds it.
float factor_to_the_edge(const Net& net, const std::string& weight) {
  for (const NamedParameter& p : net.model->parameters())
    if (p.name == weight) return static_cast<float>(6e4 / largest_magnitude(p.parameter->master()));
  ADD_FAILURE() << weight;
  return 1;
}

// C2: a weight times 1e6 does not fit into FP16; a smaller factor makes the layer's output overflow.
TEST(Remedies, C2ALargeWeightIsNamedWithPassAndMagnitudeAndFp32CuresIt) {
  for (const std::string& layer : kConvolutions) {
    const std::string weight = layer + ".weight";
    Net outgrown;
    const std::string refusal =
        testing::error_of(ErrorKind::kNumeric, [&] { outgrown.scale_weight(weight, 1e6F); });
    EXPECT_THAT(refusal, ContainsRegex("'" + weight + "' does not fit F16: got .w. = [1-9]")) << layer;
    Net net;
    const float factor = factor_to_the_edge(net, weight);
    net.scale_weight(weight, factor);
    const std::string text = net.text_of_abort();
    EXPECT_THAT(text, HasSubstr("first not finite: forward, layer " + layer + ", op conv")) << layer;
    EXPECT_THAT(text,
                ContainsRegex("output at .* = -?inf \\(.x. = [1-9][.0-9e+]* without 16-bit rounding\\)"))
        << layer;
    Net cured({}, DType::kF16, 1, {.features = {4, 8}}, {layer});
    cured.scale_weight(weight, factor);
    // What up0 gives goes to a concatenation in FP16: FP32 for it alone is no cure.
    const bool cures = layer != "up0";
    for (int i = 0; i < 3; ++i) EXPECT_EQ(std::isfinite(cured.step().loss), cures) << layer;
    EXPECT_EQ(cured.trainer->state().skipped_forward, cures ? 0 : 3) << layer;
    const std::string remedy =
        "1. the layer that overflows in FP32:    precision.fp32_layers: [\"" + layer + "\"]";
    if (cures)
      EXPECT_THAT(text, HasSubstr(remedy)) << layer;
    else
      EXPECT_THAT(text, Not(HasSubstr("fp32_layers"))) << layer;
  }
}

// C31: a head of deep supervision whose logits are 1e5 times as large.
TEST(Remedies, C31OnlyTheHeadThatOverflowsNeedsFp32) {
  const UNet3dOptions network{.features = {4, 8, 8, 8},
                              .strides = {{{1, 1, 1}, {2, 2, 2}, {2, 2, 2}, {1, 1, 1}}},
                              .deep_supervision = true};
  Net net({}, DType::kF16, 1, network);
  net.scale_weight("head1.weight", factor_to_the_edge(net, "head1.weight"));
  const std::string text = net.text_of_abort();
  EXPECT_THAT(text, HasSubstr("first not finite: forward, layer head1, op conv"));
  EXPECT_THAT(text, HasSubstr("1. the layer that overflows in FP32:    precision.fp32_layers: [\"head1\"]"));
  Net cured({}, DType::kF16, 1, network, {"head1"});
  cured.scale_weight("head1.weight", 1e5F);
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(std::isfinite(cured.step().loss)) << i;
  EXPECT_EQ(cured.trainer->state().skipped_forward, 0);
  EXPECT_GT(cured.trainer->state().applied, 10) << "the scale finds its place";
  EXPECT_EQ(cured.trainer->params().find("head1.weight")->region, ParamRegion::kKept);
  for (const char* other :
       {"head0.weight", "head2.weight", "enc0.conv1.weight", "up0.weight", "dec2.conv2.weight"})
    EXPECT_EQ(cured.trainer->params().find(other)->region, ParamRegion::kCast) << other;
  EXPECT_EQ(cured.trainer->params().region(ParamRegion::kCast).copy.dtype(), DType::kF16);
}

// Images are named as such; a value in the model's own ops by the layer before it.
TEST(Remedies, AnImageThatFp16CannotHoldIsNamedAndNoLayerIsProposed) {
  class Large final : public Dataset {
   public:
    Large(float value, std::int64_t voxels) : value_(value), voxels_(voxels) {}
    std::int64_t size() const override { return 2; }
    Sample get(std::int64_t index, const Draw& draw) const override {
      Sample sample = tests::Noise().get(index, draw);
      for (std::int64_t i = 3; index == 1 && i < 3 + voxels_; ++i) sample.image.data<float>()[i] = value_;
      return sample;
    }

   private:
    float value_;
    std::int64_t voxels_;
  };
  const auto text_of = [](float value, std::int64_t voxels) {
    Net net;
    net.loader = std::make_unique<Loader>(std::make_shared<Large>(value, voxels),
                                          LoaderOptions{.batch_size = 2, .seed = 9, .shuffle = false});
    return net.text_of_abort();
  };
  const std::string large = text_of(1e30F, 1);
  EXPECT_THAT(large,
              HasSubstr("first not finite: forward, the input image, op cast, output at [1, 0, 0, 0, 3] = "
                        "inf (|x| = 1e+30 without 16-bit rounding), sample case1"));
  EXPECT_THAT(large,
              HasSubstr("1. images without extreme values:    data.normalize: [{channel: 0, kind: zscore}]"));
  EXPECT_THAT(large, Not(HasSubstr("fp32_layers")));
  const std::string nan = text_of(std::nanf(""), 1);
  EXPECT_THAT(nan,
              HasSubstr("forward, the input image, op data, image at [1, 0, 0, 0, 3] = nan, sample case1"));
  EXPECT_THAT(nan, HasSubstr("1. the files, if they hold such values:    tandem data check JOB"));
  EXPECT_THAT(nan, Not(HasSubstr("precision.")));
  // FP16 holds the image, but not what the first convolution makes of it.
  const std::string first = text_of(6e4F, 500);
  EXPECT_THAT(first, ContainsRegex("first not finite: forward, layer enc0.conv1, op conv, output at \\[1, "));
  EXPECT_THAT(first,
              HasSubstr("1. the layer that overflows in FP32:    precision.fp32_layers: [\"enc0.conv1\"]\n"
                        "  2. images without extreme values:    data.normalize: "));
}

TEST(NonfiniteCause, OutsideOfLayersTheLayerBeforeIsNamed) {
  Net net;
  net.loss_weight = tests::kInf;
  const StepReport report = net.step();
  ASSERT_TRUE(report.cause);
  EXPECT_EQ(report.cause->layer, "");
  EXPECT_EQ(report.cause->place, "after layer head0");
  EXPECT_EQ(source_of(*report.cause), NonfiniteSource::kAnyFormat);
  EXPECT_THAT(to_text(*report.cause), HasSubstr("forward, after layer head0, op dice_ce, output at ["));
}

}  // namespace
}  // namespace tandem

// The original 3D U-Net: the paper's count and sizes.
#include "layers/models/unet3d_cicek.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// medical.md 2.1 B: without the scales and shifts of batch norm.
TEST(UNet3dCicek, HasThePapersParameterCount) {
  UNet3dCicek net(3, 3, UNet3dCicek::Border::kValid);
  std::int64_t counted = 0, norms = 0;
  std::vector<std::string> modules;
  for (const NamedParameter& p : net.parameters()) {
    (p.name.find("norm") == std::string::npos ? counted : norms) += p.parameter->shape().numel();
    const std::string module = p.name.substr(0, p.name.find('.'));
    if (modules.empty() || modules.back() != module) modules.push_back(module);
  }
  EXPECT_EQ(counted, 19069955);
  EXPECT_EQ(norms, 4672);
  EXPECT_THAT(modules, ElementsAre("enc0", "enc1", "enc2", "enc3", "up2", "dec2", "up1", "dec1", "up0",
                                   "dec0", "head"));
  EXPECT_EQ(net.buffers().size(), 14u * 3);
}

// The paper's 132 x 132 x 116 -> 44 x 44 x 28, and jobs' sizes. Values: references_test.
TEST(UNet3dCicek, OutputSizes) {
  const Context context{.compute = DType::kBF16, .training = false};
  const auto out_shape = [&](UNet3dCicek::Border border, const Shape& in) {
    UNet3dCicek net(1, 3, border);
    const ParamStore store(net.parameters(), context, {.compute = DType::kBF16});
    Tape tape(context, false);
    return net(tape.constant(Tensor::zeros(in, DType::kBF16))).main.shape();
  };
  EXPECT_EQ(out_shape(UNet3dCicek::Border::kZeros, {1, 1, 1, 4, 3}), (Shape{1, 3, 1, 4, 3}));
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the paper's volume takes minutes in a sanitized build";
#endif
  EXPECT_EQ(out_shape(UNet3dCicek::Border::kValid, {1, 1, 132, 132, 116}), (Shape{1, 3, 44, 44, 28}));
}

TEST(UNet3dCicek, ASizeThatDoesNotFitSaysSo) {
  UNet3dCicek net(1, 2, UNet3dCicek::Border::kValid);
  const ParamStore store(net.parameters(), {}, {});
  Tape tape(Context{}, false);
  for (const Shape& shape : {Shape{1, 1, 132, 132, 112}, Shape{1, 1, 84, 92, 92}}) {
    try {
      net(tape.constant(Tensor::zeros(shape, DType::kF32)));
      FAIL() << "expected Error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("expected sizes of at least 92, each 4 more than a multiple of 8"));
    }
  }
}

}  // namespace
}  // namespace tandem

// The rules of engine choice: a table of pass, shape, dtype and target.
#include "core/backends/cpu/conv_engine.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

constexpr CpuTarget kSse{CpuIsa::kV2, false}, kAvx2{CpuIsa::kV3, false}, kAvx512{CpuIsa::kV4, false},
    kBf16{CpuIsa::kV4, true}, kAmx{CpuIsa::kAmx, true};

ConvGeometry plain(std::int64_t in, std::int64_t out) {
  ConvGeometry g;
  g.in_channels = in;
  g.out_channels = out;
  g.in = g.out = {8, 8, 8};
  g.kernel = {3, 3, 3};
  g.padding = {1, 1, 1};
  return g;
}

Engine choose(ConvPass pass, const ConvGeometry& g, DType dtype, const CpuTarget& target) {
  return choose_conv_engine(pass, g, dtype, target);
}

TEST(ConvEngine, SixteenBitStorageWithoutItsHardware) {
  const ConvGeometry g = plain(16, 16);
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardData, ConvPass::kBackwardWeights})
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      EXPECT_EQ(choose(pass, g, dtype, kSse), Engine::kWidened);
      EXPECT_EQ(choose(pass, g, dtype, kAvx2), Engine::kDirect);
      EXPECT_EQ(choose(pass, g, dtype, kAvx512), Engine::kDirect);
    }
}

// FP16 where pairs of channels can be summed over, but for weight gradients.
TEST(ConvEngine, TilesTakeBf16AndFp16) {
  const ConvGeometry g = plain(16, 16);
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardData, ConvPass::kBackwardWeights}) {
    EXPECT_EQ(choose(pass, g, DType::kBF16, kBf16), Engine::kDirect);
    EXPECT_EQ(choose(pass, g, DType::kBF16, kAmx), Engine::kOneDnn);
    EXPECT_EQ(choose(pass, g, DType::kF16, kBf16), Engine::kDirect);
    EXPECT_EQ(choose(pass, g, DType::kF16, kAmx),
              pass == ConvPass::kBackwardWeights ? Engine::kDirect : Engine::kTiles);
  }
  EXPECT_EQ(choose(ConvPass::kForward, plain(5, 16), DType::kF16, kAmx), Engine::kDirect);
  EXPECT_EQ(choose(ConvPass::kBackwardData, plain(5, 16), DType::kF16, kAmx), Engine::kTiles);
}

TEST(ConvEngine, SlowBf16GradientsComputeInFp32) {
  ConvGeometry dilated = plain(16, 16);
  dilated.dilation = {2, 2, 2};
  ConvGeometry depthwise = plain(16, 16);
  depthwise.groups = 16;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    EXPECT_EQ(choose(ConvPass::kBackwardWeights, dilated, dtype, kAmx), Engine::kDirect);
    EXPECT_EQ(choose(ConvPass::kBackwardWeights, depthwise, dtype, kAmx), Engine::kWidened);
  }
  EXPECT_EQ(choose(ConvPass::kForward, dilated, DType::kBF16, kAmx), Engine::kOneDnn);
}

TEST(ConvEngine, FewChannelsAvoidTheTiles) {
  EXPECT_EQ(choose(ConvPass::kForward, plain(1, 16), DType::kBF16, kAmx), Engine::kDirect);
  EXPECT_EQ(choose(ConvPass::kForward, plain(3, 16), DType::kF16, kAmx), Engine::kDirect);
}

TEST(ConvEngine, GroupsGoToOneDnn) {
  ConvGeometry g = plain(16, 16);
  g.groups = 4;
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardData, ConvPass::kBackwardWeights}) {
    EXPECT_EQ(choose(pass, g, DType::kF32, kAvx2), Engine::kOneDnn);
    EXPECT_EQ(choose(pass, g, DType::kF16, kAvx2), Engine::kWidened);
    EXPECT_EQ(choose(pass, g, DType::kF16, kAmx), Engine::kWidened);
  }
}

// oneDNN's fast kernels are wrong there on AVX-512 and AMX.
TEST(ConvEngine, UnusualWindowsGoToOwnKernels) {
  ConvGeometry small = plain(16, 16), skipping = plain(16, 16), padded = plain(16, 16);
  small.in[2] = small.out[2] = 2;
  skipping.kernel[0] = 1, skipping.padding[0] = 0, skipping.stride[0] = 2, skipping.out[0] = 4;
  padded.padding[1] = 2, padded.out[1] = 10;
  EXPECT_TRUE(has_usual_window(plain(16, 16)));
  for (const ConvGeometry& g : {small, skipping, padded}) {
    EXPECT_FALSE(has_usual_window(g));
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
      for (const CpuTarget& target : {kAvx2, kAvx512, kBf16, kAmx})
        EXPECT_EQ(choose(ConvPass::kForward, g, dtype, target), Engine::kDirect);
  }
}

TEST(ConvEngine, Fp32) {
  const ConvGeometry g = plain(16, 16);
  EXPECT_EQ(choose(ConvPass::kBackwardWeights, g, DType::kF32, kAvx2), Engine::kDirect);
  EXPECT_EQ(choose(ConvPass::kBackwardWeights, g, DType::kF32, kAvx512), Engine::kOneDnn);
  EXPECT_EQ(choose(ConvPass::kForward, g, DType::kF32, kSse), Engine::kOneDnn);
}

TEST(GemmEngine, FormsOfOwnKernels) {
  const MatmulShape rows{100, 20, 30, false, true, false}, gradient{30, 20, 300, true, false, true};
  const MatmulShape both{30, 20, 100, true, true, false}, added{100, 20, 30, false, false, true};
  EXPECT_EQ(choose_gemm_engine(rows, DType::kF16, kAvx2), Engine::kDirect);
  EXPECT_EQ(choose_gemm_engine(gradient, DType::kBF16, kAvx2), Engine::kDirect);
  EXPECT_EQ(choose_gemm_engine({500, 800, 64, true, false, true}, DType::kF16, kAvx2), Engine::kWidened);
  EXPECT_EQ(choose_gemm_engine(both, DType::kF16, kAvx2), Engine::kWidened);
  EXPECT_EQ(choose_gemm_engine(added, DType::kF16, kAvx2), Engine::kWidened);
  EXPECT_EQ(choose_gemm_engine(rows, DType::kF16, kSse), Engine::kWidened);
  EXPECT_EQ(choose_gemm_engine(rows, DType::kF32, kAvx2), Engine::kOneDnn);
  EXPECT_EQ(choose_gemm_engine(rows, DType::kBF16, kAmx), Engine::kOneDnn);
  EXPECT_EQ(choose_gemm_engine(rows, DType::kF16, kAmx), Engine::kSplit);
  EXPECT_EQ(choose_gemm_engine(gradient, DType::kF16, kAmx), Engine::kSplit);
}

}  // namespace
}  // namespace tandem

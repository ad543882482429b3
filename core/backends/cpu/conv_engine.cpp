// The rules of engine choice, with the measurement behind each.
#include "core/backends/cpu/conv_engine.h"

#include <algorithm>

namespace tandem {
namespace {

// oneDNN's BF16 forward with one input channel reaches half the speed of FP32, a tile's depth being 32.
constexpr std::int64_t kFewChannels = 4;
// Above this reduction length the packed weights of own matmul leave the caches, which oneDNN blocks for.
constexpr std::int64_t kLongReduction = 1024;
// The gradient form pays where its sums are much longer than they are many: it adds whole results up.
constexpr std::int64_t kSumsPerOutput = 8;

bool is_dilated(const ConvGeometry& g) {
  return std::any_of(g.dilation.begin(), g.dilation.end(), [](std::int64_t d) { return d > 1; });
}

// An even number of channels to sum over: tiles multiply pairs.
bool has_pairs(ConvPass pass, const ConvGeometry& g) {
  return g.groups == 1 && (pass == ConvPass::kForward ? g.in_channels : g.out_channels) % 2 == 0;
}

// Where no BF16 hardware is used: own kernels convert in cache; they need AVX2 or more and whole channels.
Engine fp32_compute(const ConvGeometry& g, const CpuTarget& target) {
  return g.groups == 1 && target.isa >= CpuIsa::kV3 ? Engine::kDirect : Engine::kWidened;
}

Engine fp32_engine(ConvPass pass, const ConvGeometry& g, const CpuTarget& target) {
  // AVX2: own weight gradient twice as fast (bench/conv_bench.cpp); oneDNN's AVX-512 kernels are good at all
  // passes.
  const bool own = pass == ConvPass::kBackwardWeights && target.isa == CpuIsa::kV3 && g.groups == 1;
  return own ? Engine::kDirect : Engine::kOneDnn;
}

}  // namespace

std::string_view name(Engine engine) {
  switch (engine) {
    case Engine::kDirect:
      return "direct";
    case Engine::kOneDnn:
      return "onednn";
    case Engine::kWidened:
      return "widened";
    case Engine::kSplit:
      return "split";
    case Engine::kTiles:
      return "tiles";
  }
  return "?";
}

Engine choose_conv_engine(ConvPass pass, const ConvGeometry& g, DType dtype, const CpuTarget& target) {
  // oneDNN has only slow implementations for these: onednn.h says why.
  if (!has_usual_window(g) && g.groups == 1 && target.isa >= CpuIsa::kV3) return Engine::kDirect;
  if (dtype == DType::kF32) return fp32_engine(pass, g, target);
  if (std::min(g.in_channels, g.out_channels) < kFewChannels) return fp32_compute(g, target);
  // oneDNN's BF16 weight gradient with dilation or groups is a hundred times slower than in FP32
  // (cpu-kernels.md).
  const bool slow_gradient = pass == ConvPass::kBackwardWeights && (is_dilated(g) || g.groups > 1);
  // Tiles only: oneDNN's kernels of AVX-512 BF16 take half again as long as own ones in FP32.
  if (target.isa != CpuIsa::kAmx) return fp32_compute(g, target);
  if (dtype == DType::kBF16 && !slow_gradient) return Engine::kOneDnn;
  if (dtype == DType::kF16 && pass != ConvPass::kBackwardWeights && has_pairs(pass, g)) return Engine::kTiles;
  return fp32_compute(g, target);
}

Engine choose_gemm_engine(const MatmulShape& shape, DType dtype, const CpuTarget& target) {
  // Own kernels take a [M,K] by weights, or the weight gradient's form a^T b.
  const bool row_form = !shape.transpose_a && !shape.accumulate && shape.k <= kLongReduction;
  const bool gradient_form = shape.transpose_a && !shape.transpose_b && shape.k >= kSumsPerOutput * shape.m;
  const bool own = (row_form || gradient_form) && target.isa >= CpuIsa::kV3;
  if (dtype == DType::kF32) return Engine::kOneDnn;
  if (dtype == DType::kBF16 && target.isa == CpuIsa::kAmx) return Engine::kOneDnn;
  if (dtype == DType::kF16 && target.isa == CpuIsa::kAmx) return Engine::kSplit;
  return own ? Engine::kDirect : Engine::kWidened;
}

}  // namespace tandem

// Convolutions of the CT job's 3D U-Net (features 16-32-64, patch 48^3, batch 2) and of larger ones: own
// kernels beside oneDNN, per pass and dtype. Run: build/bin/conv_bench [--threads=N]; compare rows of one
// run, the machine otherwise idle.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "core/backends/cpu/conv.h"
#include "core/base/parallel.h"
#include "core/base/rng.h"

namespace tandem {
namespace {

struct Layer {
  const char* name;
  std::int64_t in, out, size, stride, kernel;
};

// name, input and output channels, extent, stride, kernel.
constexpr Layer kLayers[] = {
    {"1->16 48^3", 1, 16, 48, 1, 3},
    {"16->16 48^3", 16, 16, 48, 1, 3},
    {"32->16 48^3", 32, 16, 48, 1, 3},
    {"16->32 48^3 stride 2", 16, 32, 48, 2, 3},
    {"32->32 24^3", 32, 32, 24, 1, 3},
    {"64->32 24^3", 64, 32, 24, 1, 3},
    {"32->64 24^3 stride 2", 32, 64, 24, 2, 3},
    {"64->64 12^3", 64, 64, 12, 1, 3},
    {"128->64 24^3", 128, 64, 24, 1, 3},
    {"128->128 12^3", 128, 128, 12, 1, 3},
    {"128->256 12^3 stride 2", 128, 256, 12, 2, 3},
    {"320->320 6^3", 320, 320, 6, 1, 3},
    {"16->6 48^3 1x1x1", 16, 6, 48, 1, 1},
};

ConvGeometry geometry_of(const Layer& layer) {
  ConvGeometry g;
  g.batch = 2;
  g.in_channels = layer.in;
  g.out_channels = layer.out;
  const std::int64_t padding = layer.kernel / 2,
                     out = (layer.size + 2 * padding - layer.kernel) / layer.stride + 1;
  for (std::size_t i = 0; i < 3; ++i) {
    g.in[i] = layer.size;
    g.out[i] = out;
    g.kernel[i] = layer.kernel;
    g.stride[i] = layer.stride;
    g.padding[i] = padding;
  }
  return g;
}

Tensor random_tensor(const Shape& shape, DType dtype, MemoryCategory category) {
  const Tensor wide(shape, DType::kF32);
  RandomStream random(1, RandomPurpose::kSynthetic, 0, 0);
  for (std::int64_t i = 0; i < wide.numel(); ++i) wide.data<float>()[i] = static_cast<float>(random.normal());
  const Tensor result(shape, dtype, kCpuDevice, category);
  kernel_table(cpu_isa()).narrow(
      {dtype, wide.raw(), wide.numel(), result.raw(), wide.numel(), 1, wide.numel()});
  return result;
}

void run(benchmark::State& state, const Layer& layer, ConvPass pass, Engine engine, DType dtype) {
  const ConvGeometry g = geometry_of(layer);
  ConvContext context(cpu_target());
  const CpuConv conv(context);
  const Shape x_shape{2, g.in_channels, g.in[0], g.in[1], g.in[2]},
      y_shape{2, g.out_channels, g.out[0], g.out[1], g.out[2]};
  const Shape w_shape{g.out_channels, g.in_channels, g.kernel[0], g.kernel[1], g.kernel[2]};
  const Tensor x = random_tensor(x_shape, dtype, MemoryCategory::kActivations);
  const Tensor y = random_tensor(y_shape, dtype, MemoryCategory::kActivations);
  const Tensor w = random_tensor(w_shape, dtype, MemoryCategory::kWeights);
  const Tensor dw = Tensor::zeros(w_shape, DType::kF32);
  for (auto _ : state) {
    if (pass == ConvPass::kForward) conv.forward(engine, g, x, w, Tensor(), y);
    if (pass == ConvPass::kBackwardData) conv.backward_data(engine, g, y, w, x);
    if (pass == ConvPass::kBackwardWeights) conv.backward_weights(engine, g, x, y, dw);
  }
  const double operations = 2.0 * static_cast<double>(y.numel() * g.in_channels * g.taps());
  state.counters["GFLOP/s"] =
      benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void add(const Layer& layer, ConvPass pass, Engine engine, DType dtype) {
  constexpr const char* kPasses[] = {"forward", "data_gradient", "weight_gradient"};
  const std::string text = std::string(layer.name) + "/" + kPasses[static_cast<int>(pass)] + "/" +
                           std::string(name(dtype)) + "/" + std::string(name(engine));
  benchmark::RegisterBenchmark(text.c_str(),
                               [=](benchmark::State& state) { run(state, layer, pass, engine, dtype); })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime()
      ->MinTime(0.2);
}

// Own kernels need AVX2; BF16 primitives and tiles their instructions.
void add_layer(const Layer& layer) {
  const bool direct = cpu_isa() >= CpuIsa::kV3, bf16 = cpu_target().avx512_bf16;
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardData, ConvPass::kBackwardWeights}) {
    add(layer, pass, Engine::kOneDnn, DType::kF32);
    if (direct) add(layer, pass, Engine::kDirect, DType::kF32);
    add(layer, pass, Engine::kWidened, DType::kF16);
    if (direct) add(layer, pass, Engine::kDirect, DType::kF16);
    if (bf16) add(layer, pass, Engine::kOneDnn, DType::kBF16);
    if (cpu_target().isa == CpuIsa::kAmx && pass != ConvPass::kBackwardWeights && layer.in > 1)
      add(layer, pass, Engine::kTiles, DType::kF16);
  }
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::string prefix = "--threads=";
  for (int i = 1; i < argc; ++i)
    if (std::string(argv[i]).rfind(prefix, 0) == 0)
      tandem::set_compute_threads(std::atoi(argv[i] + prefix.size()));
  for (const tandem::Layer& layer : tandem::kLayers) tandem::add_layer(layer);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

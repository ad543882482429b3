// ONEDNN_* of the environment has no say in the numbers: this program run again with such variables gives the
// same bits.
#include <fmt/core.h>

#include <array>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "tests/cpu/conv_oracle.h"

namespace tandem::testing {
namespace {

constexpr const char* kLabel = "bits of the convolution: ";

std::uint64_t hash_of(const std::vector<double>& values) {
  std::uint64_t hash = 1469598103934665603u;  // FNV-1a
  for (const double v : values) hash = (hash ^ std::bit_cast<std::uint64_t>(v)) * 1099511628211u;
  return hash;
}

std::string computed_bits() {
  ConvContext context(cpu_target());
  const CpuConv conv(context);
  const ConvGeometry g = geometry(3, 1, 16, 16, {8, 8, 8}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1});
  const Tensor x = random_tensor(data_shape(g, true), DType::kF32, 1);
  const Tensor w = random_tensor(weight_shape(g), DType::kF32, 2);
  const Tensor y(data_shape(g, false), DType::kF32), dx(data_shape(g, true), DType::kF32);
  const Tensor dw = Tensor::zeros(weight_shape(g), DType::kF32);
  conv.forward(Engine::kOneDnn, g, x, w, Tensor(), y);
  conv.backward_data(Engine::kOneDnn, g, y, w, dx);
  conv.backward_weights(Engine::kOneDnn, g, x, y, dw);
  return fmt::format("{:016x} {:016x} {:016x}", hash_of(y.to_values()), hash_of(dx.to_values()),
                     hash_of(dw.to_values()));
}

// What this program prints after kLabel with `environment` before its name.
std::string bits_with(const std::string& environment) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = environment + " '" + self + "' --gtest_filter=ConvEnvironment.PrintsItsBits";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> buffer{};
  while (pipe && fgets(buffer.data(), static_cast<int>(buffer.size()), pipe.get()) != nullptr)
    text += buffer.data();
  const std::size_t at = text.find(kLabel);
  return at == std::string::npos ? "none: " + text : text.substr(at + std::string(kLabel).size(), 50);
}

TEST(ConvEnvironment, PrintsItsBits) { std::printf("%s%s\n", kLabel, computed_bits().c_str()); }

TEST(ConvEnvironment, OneDnnVariablesChangeNothing) {
  const std::string bits = computed_bits();
  EXPECT_EQ(bits_with("ONEDNN_DEFAULT_FPMATH_MODE=BF16 ONEDNN_MAX_CPU_ISA=SSE41"), bits);
  EXPECT_EQ(bits_with("DNNL_DEFAULT_FPMATH_MODE=ANY DNNL_MAX_CPU_ISA=AVX ONEDNN_CPU_ISA_HINTS=PREFER_YMM"),
            bits);
}

}  // namespace
}  // namespace tandem::testing

// The CPU's matmul against double loops: every engine, transposition, dtype and pitch.
#include "core/backends/cpu/gemm.h"

#include "tests/cpu/conv_oracle.h"

namespace tandem::testing {
namespace {

struct Sizes {
  std::int64_t m, n, k;
};

std::vector<double> product(const Sizes& s, const GemmArgs& args, const Tensor& a, const Tensor& b) {
  const std::vector<double> av = a.to_values(), bv = b.to_values();
  std::vector<double> c(static_cast<std::size_t>(s.m * s.n), 0.0);
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t j = 0; j < s.n; ++j)
      for (std::int64_t r = 0; r < s.k; ++r)
        c[static_cast<std::size_t>(i * s.n + j)] +=
            av[static_cast<std::size_t>(args.transpose_a ? r * s.m + i : i * s.k + r)] *
            bv[static_cast<std::size_t>(args.transpose_b ? j * s.k + r : r * s.n + j)];
  return c;
}

std::vector<Engine> engines(const GemmArgs& args, DType dtype) {
  std::vector<Engine> result;
  if (args.transpose_a ? !args.transpose_b : !args.accumulate) result.push_back(Engine::kDirect);
  result.push_back(dtype == DType::kF32 ? Engine::kOneDnn : Engine::kWidened);
  return result;
}

class GemmEngines : public ::testing::TestWithParam<DType> {};

TEST_P(GemmEngines, AgainstDouble) {
  const DType dtype = GetParam();
  for (const Level& level : levels()) {
    ConvContext context(level.target, *level.kernels);
    for (const Sizes& s : {Sizes{17, 33, 5}, {1, 10, 64}, {65, 1, 3}, {40, 16, 300}})
      for (int flags = 0; flags < 8; ++flags) {
        const GemmArgs args{(flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0};
        const Tensor a =
            pitched(random_tensor(args.transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k}, dtype, 1));
        const Tensor b =
            pitched(random_tensor(args.transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n}, dtype, 2));
        const Tensor start = random_tensor({s.m, s.n}, args.accumulate ? DType::kF32 : dtype, 3);
        std::vector<double> expected = product(s, args, a, b);
        const std::vector<double> before = start.to_values();
        for (std::size_t i = 0; args.accumulate && i < before.size(); ++i) expected[i] += before[i];
        const bool fp32 = start.dtype() == DType::kF32;
        const double absolute = fp32                   ? 1e-6 * std::sqrt(static_cast<double>(s.k))
                                : dtype == DType::kF16 ? 1e-3
                                                       : 8e-3;
        const double relative = fp32 ? 1e-5 : dtype == DType::kF16 ? 2e-3 : 1.6e-2;
        for (const Engine engine : engines(args, dtype))
          for (const std::int64_t slab_bytes : {CpuGemm::kSlabBytes, std::int64_t{300}}) {
            const Tensor c = pitched(start);
            CpuGemm(context, slab_bytes).gemm(engine, args, a, b, c);
            expect_close(
                c.to_values(), expected, absolute, relative,
                level.name + " " + std::string(tandem::name(engine)) + " flags " + std::to_string(flags));
            if (HasFatalFailure()) return;
          }
      }
  }
}

TEST_P(GemmEngines, EmptySizes) {
  ConvContext context(cpu_target());
  const CpuGemm gemm(context);
  const Tensor none({0, 4}, GetParam()), b = random_tensor({4, 3}, GetParam(), 1), empty({0, 3}, GetParam());
  gemm.gemm({}, none, b, empty);
  // A sum over nothing: zero, or what was there.
  const Tensor c = random_tensor({4, 3}, DType::kF32, 2);
  const std::vector<double> before = c.to_values();
  gemm.gemm({true, false, true}, none, empty, c);
  EXPECT_EQ(c.to_values(), before);
  gemm.gemm({true, false, false}, none, empty, c);
  EXPECT_EQ(c.to_values(), std::vector<double>(12, 0.0));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GemmEngines, ::testing::Values(DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tandem::testing

// Convolution and its gradients as plain loops in double, with the sum of magnitudes of every output, and the
// tensors and contexts that the convolution tests share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/backends/cpu/conv.h"
#include "core/base/rng.h"

namespace tandem::isa_v4_on_v3 {
const KernelTable& kernel_table();
}

namespace tandem::testing {

struct Sums {
  std::vector<double> value, magnitude;  // logical order
  explicit Sums(std::size_t n) : value(n, 0.0), magnitude(n, 0.0) {}
  void add(std::int64_t i, double term) {
    value[static_cast<std::size_t>(i)] += term;
    magnitude[static_cast<std::size_t>(i)] += std::fabs(term);
  }
};

inline std::int64_t volume(const std::array<std::int64_t, 3>& s) { return s[0] * s[1] * s[2]; }

// Calls body(y index, w index, x index) for every product of the convolution, in logical order of all three.
template <class Body>
void for_products(const ConvGeometry& g, const Body& body) {
  const std::int64_t kg = g.out_channels / g.groups, cg = g.in_channels / g.groups;
  const auto index = [](const std::array<std::int64_t, 3>& size, std::int64_t d, std::int64_t h,
                        std::int64_t w) { return (d * size[1] + h) * size[2] + w; };
  const auto source = [&](std::size_t axis, std::int64_t o, std::int64_t t) {
    return o * g.stride[axis] - g.padding[axis] + t * g.dilation[axis];
  };
  for (std::int64_t o = 0; o < volume(g.out); ++o)
    for (std::int64_t t = 0; t < g.taps(); ++t) {
      const std::int64_t d = source(0, o / (g.out[1] * g.out[2]), t / (g.kernel[1] * g.kernel[2]));
      const std::int64_t h = source(1, o / g.out[2] % g.out[1], t / g.kernel[2] % g.kernel[1]);
      const std::int64_t w = source(2, o % g.out[2], t % g.kernel[2]);
      if (d < 0 || h < 0 || w < 0 || d >= g.in[0] || h >= g.in[1] || w >= g.in[2]) continue;
      for (std::int64_t n = 0; n < g.batch; ++n)
        for (std::int64_t k = 0; k < g.out_channels; ++k)
          for (std::int64_t c = 0; c < cg; ++c)
            body((n * g.out_channels + k) * volume(g.out) + o, (k * cg + c) * g.taps() + t,
                 (n * g.in_channels + k / kg * cg + c) * volume(g.in) + index(g.in, d, h, w));
    }
}

using Triple = std::array<std::int64_t, 3>;

// out from the other sizes, as PyTorch computes it.
inline ConvGeometry geometry(int rank, std::int64_t batch, std::int64_t in_channels,
                             std::int64_t out_channels, Triple in, Triple kernel, Triple stride = {1, 1, 1},
                             Triple padding = {0, 0, 0}, Triple dilation = {1, 1, 1},
                             std::int64_t groups = 1) {
  ConvGeometry g;
  g.spatial_rank = rank;
  g.batch = batch;
  g.in_channels = in_channels;
  g.out_channels = out_channels;
  g.groups = groups;
  g.in = in;
  g.kernel = kernel;
  g.stride = stride;
  g.padding = padding;
  g.dilation = dilation;
  for (std::size_t i = 0; i < 3; ++i)
    g.out[i] = (in[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
  return g;
}

enum class Operand { kX, kW, kY };

// The sums of the products of the two other operands into `target`.
inline Sums oracle(const ConvGeometry& g, Operand target, const std::vector<double>& x,
                   const std::vector<double>& w, const std::vector<double>& y) {
  Sums sums((target == Operand::kX ? x : target == Operand::kW ? w : y).size());
  for_products(g, [&](std::int64_t yi, std::int64_t wi, std::int64_t xi) {
    const double a = x[static_cast<std::size_t>(xi)], b = w[static_cast<std::size_t>(wi)],
                 c = y[static_cast<std::size_t>(yi)];
    if (target == Operand::kX) sums.add(xi, b * c);
    if (target == Operand::kW) sums.add(wi, a * c);
    if (target == Operand::kY) sums.add(yi, a * b);
  });
  return sums;
}

inline std::vector<double> normal_values(std::int64_t n, std::uint64_t seed) {
  RandomStream random(seed, RandomPurpose::kSynthetic, 0, 0);
  std::vector<double> values(static_cast<std::size_t>(n));
  for (double& v : values) v = random.normal();
  return values;
}

inline Shape data_shape(const ConvGeometry& g, bool input) {
  std::vector<std::int64_t> sizes{g.batch, input ? g.in_channels : g.out_channels};
  const auto& spatial = input ? g.in : g.out;
  sizes.insert(sizes.end(), spatial.end() - g.spatial_rank, spatial.end());
  return Shape(sizes);
}

inline Shape weight_shape(const ConvGeometry& g) {
  std::vector<std::int64_t> sizes{g.out_channels, g.in_channels / g.groups};
  sizes.insert(sizes.end(), g.kernel.end() - g.spatial_rank, g.kernel.end());
  return Shape(sizes);
}

inline Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t seed) {
  return Tensor::from_values(shape, normal_values(shape.numel(), seed), dtype);
}

// The same values as a view of a wider tensor, at channel 2 of C + 5.
inline Tensor pitched(const Tensor& t) {
  const std::int64_t wide = t.channels() + 5;
  const Tensor whole = Tensor::zeros(t.shape().with(1, wide), t.dtype());
  const Tensor view = whole.slice_channels(2, t.channels());
  const std::size_t row = static_cast<std::size_t>(t.channels()) * size_of(t.dtype());
  for (std::int64_t r = 0; r < t.rows(); ++r)
    std::memcpy(rows_from(mutable_rows_of(view), r).data, rows_from(rows_of(t), r).data, row);
  return view;
}

// Levels that this process may run (TANDEM_ISA caps oneDNN too), and v4's tiles on AVX2. The highest first: a
// process can cap oneDNN's instruction sets only once, so oneDNN's own lower levels are the subject of
// ops_on_* (TANDEM_ISA).
struct Level {
  std::string name;
  CpuTarget target;
  const KernelTable* kernels;
};
inline std::vector<Level> levels() {
  std::vector<Level> result{{"sse4", {CpuIsa::kV2, false}, &isa_v2::kernel_table()}};
  const CpuTarget here = cpu_target();
  if (here.isa >= CpuIsa::kV3) {
    result.push_back({"avx2", {CpuIsa::kV3, false}, &isa_v3::kernel_table()});
    result.push_back({"avx512_on_avx2", {CpuIsa::kV3, false}, &isa_v4_on_v3::kernel_table()});
  }
  if (here.isa >= CpuIsa::kV4)
    result.push_back({"avx512", {CpuIsa::kV4, here.avx512_bf16}, &isa_v4::kernel_table()});
  std::reverse(result.begin(), result.end());
  return result;
}

// |got - expected| <= absolute * scale + relative * |expected| for every element; says where it is not.
inline void expect_close(const std::vector<double>& got, const std::vector<double>& expected, double absolute,
                         double relative, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double scale = 1;
  for (const double e : expected) scale = std::max(scale, std::fabs(e));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::fabs(got[i] - expected[i]), absolute * scale + relative * std::fabs(expected[i]))
        << what << ", element " << i << ": got " << got[i] << ", expected " << expected[i];
}

// By the precision of the exact split: 2^-16 of the magnitudes that are summed, and the rounding of the
// result.
inline void expect_within(const std::vector<double>& got, const Sums& sums, double rounding,
                          const std::string& what) {
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::fabs(got[i] - sums.value[i]),
              0x1p-16 * sums.magnitude[i] + rounding * std::fabs(sums.value[i]) + 0x1p-25)
        << what << ", element " << i << ": got " << got[i] << ", expected " << sums.value[i];
}

}  // namespace tandem::testing

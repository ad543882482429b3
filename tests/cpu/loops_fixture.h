// What the loops' tests share: one run per instruction-set level, tensors filled row by row (packed or
// pitched), the reference backend as oracle, tolerances by dtype.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/backends/cpu/cpu_loops.h"
#include "core/backends/reference/reference_backend.h"
#include "core/base/half.h"
#include "core/base/parallel.h"
#include "core/tensor/tensor.h"

namespace tandem::loops_test {

inline constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

class LoopsTest : public testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override {
    if (GetParam() > detect_cpu().isa) GTEST_SKIP() << "this machine has no " << name(GetParam());
    set_compute_threads(2);
  }
  const CpuLoops& loops() const { return cpu_loops(GetParam()); }
};

inline std::string level_name(const testing::TestParamInfo<CpuIsa>& info) {
  return std::string(name(info.param));
}

#define TD_FOR_EACH_LEVEL(Suite) \
  INSTANTIATE_TEST_SUITE_P(Levels, Suite, testing::Values(CpuIsa::kV2, CpuIsa::kV3, CpuIsa::kV4), level_name)

inline double load(const Tensor& t, std::int64_t i) {
  switch (t.dtype()) {
    case DType::kF64:
      return t.data<double>()[i];
    case DType::kF32:
      return t.data<float>()[i];
    case DType::kF16:
      return to_float(t.data<Half>()[i]);
    case DType::kBF16:
      return to_float(t.data<BFloat16>()[i]);
    default:
      return t.data<std::int32_t>()[i];
  }
}

inline void store(const Tensor& t, std::int64_t i, double x) {
  switch (t.dtype()) {
    case DType::kF64:
      t.data<double>()[i] = x;
      break;
    case DType::kF32:
      t.data<float>()[i] = static_cast<float>(x);
      break;
    case DType::kF16:
      t.data<Half>()[i] = to_half(static_cast<float>(x));
      break;
    case DType::kBF16:
      t.data<BFloat16>()[i] = to_bfloat16(static_cast<float>(x));
      break;
    default:
      t.data<std::int32_t>()[i] = static_cast<std::int32_t>(x);
  }
}

// Values row by row, channels innermost: the storage order of a packed tensor.
inline std::vector<double> read(const Tensor& t) {
  std::vector<double> values;
  for (std::int64_t r = 0; r < t.rows(); ++r)
    for (std::int64_t c = 0; c < t.channels(); ++c) values.push_back(load(t, r * t.channel_pitch() + c));
  return values;
}
inline void fill(const Tensor& t, const std::vector<double>& values) {
  std::size_t at = 0;
  for (std::int64_t r = 0; r < t.rows(); ++r)
    for (std::int64_t c = 0; c < t.channels(); ++c) store(t, r * t.channel_pitch() + c, values.at(at++));
}

enum class Layout { kPacked, kPitched };

// Filled with 77, so that what a kernel leaves out shows; pitched: a slice of a tensor with 3 channels more
// on each side.
inline Tensor make(const Shape& shape, DType dtype, Layout layout = Layout::kPacked) {
  const std::int64_t channels = shape.channels();
  const bool pitched = layout == Layout::kPitched;
  const int axis = shape.rank() == 1 ? 0 : 1;
  const Tensor whole(pitched ? shape.with(axis, channels + 6) : shape, dtype);
  for (std::int64_t i = 0; i < whole.numel(); ++i) store(whole, i, 77);
  return pitched ? whole.slice_channels(3, channels) : whole;
}

inline Tensor make(const Shape& shape, DType dtype, const std::vector<double>& values,
                   Layout layout = Layout::kPacked) {
  const Tensor t = make(shape, dtype, layout);
  fill(t, values);
  return t;
}

// The same values as F64 for the oracle.
inline Tensor exact(const Tensor& t) {
  const Tensor copy(t.shape(), DType::kF64, kReferenceDevice);
  fill(copy, read(t));
  return copy;
}
inline Tensor exact(const Shape& shape) {
  const Tensor t(shape, DType::kF64, kReferenceDevice);
  fill(t, std::vector<double>(static_cast<std::size_t>(shape.numel()), 77.0));
  return t;
}

// Nearly normal: the sum of four uniform numbers.
inline std::vector<double> random_values(std::int64_t n, unsigned seed, double mean = 0, double std = 1) {
  std::minstd_rand random(seed * 7919 + 1);
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int k = 0; k < 4; ++k) sum += static_cast<double>(random()) * 0x1p-31;
    values.push_back(mean + std * std::sqrt(3.0) * (sum - 2));
  }
  return values;
}

inline double rounding(DType dtype) {
  return dtype == DType::kF32 ? 0x1p-24 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
}

// Each element within the dtype's rounding of the oracle's, plus `slack` (absolute error of the FP32
// computation).
inline void expect_near(const Tensor& got, const std::vector<double>& expected, double slack,
                        const std::string& where) {
  const std::vector<double> values = read(got);
  ASSERT_EQ(values.size(), expected.size()) << where;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(values[i])) << where << " element " << i << ": " << values[i];
    } else if (std::isinf(expected[i]) || std::isinf(values[i])) {
      ASSERT_EQ(values[i], expected[i]) << where << " element " << i;
    } else {
      const double tolerance = 1.01 * rounding(got.dtype()) * std::abs(expected[i]) + slack +
                               (got.dtype() == DType::kF16 ? 0x1p-25 : 0);
      ASSERT_NEAR(values[i], expected[i], tolerance) << where << " element " << i;
    }
  }
}

// The pitched tensor's neighbours are untouched.
inline void expect_margins(const Tensor& t, const std::string& where) {
  if (t.channel_pitch() != t.channels() + 6) return;
  for (std::int64_t r = 0; r < t.rows(); ++r)
    for (std::int64_t k = -3; k < t.channels() + 3; ++k) {
      if (k >= 0 && k < t.channels()) continue;
      const Tensor margin(t.storage(), t.offset() + r * t.channel_pitch() + k, Shape{1}, t.dtype(), 1);
      ASSERT_EQ(load(margin, 0), 77) << where << " row " << r << " channel " << k;
    }
}

inline std::string describe(const Tensor& t) { return to_string(t) + (t.is_packed() ? "" : " pitched"); }

// Bytes of both results are the same.
inline void expect_same_bits(const Tensor& a, const Tensor& b, const std::string& where) {
  ASSERT_EQ(a.numel(), b.numel());
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.numel()) * size_of(a.dtype())), 0)
      << where;
}

}  // namespace tandem::loops_test

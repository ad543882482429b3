// Tensors of the emulated device for tests that call the backend itself, and the double reference beside it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/backends/backend.h"
#include "tests/cuda/emulator.h"

namespace tandem::testing {

using Numbers = std::vector<double>;

inline Backend& cuda_backend() { return backend_of(emulated_device()); }
inline Backend& reference() { return backend_of(kReferenceDevice); }

inline Numbers random_numbers(std::int64_t n, unsigned seed, double low = -1, double high = 1) {
  std::minstd_rand random(seed * 7919 + 1);
  Numbers values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(low + (high - low) * static_cast<double>(random()) * 0x1p-31);
  return values;
}

inline Tensor on_device(const Shape& shape, const Numbers& values, DType dtype = DType::kF32) {
  return Tensor::from_values(shape, values, dtype, emulated_device());
}
inline Tensor exact(const Tensor& t) {
  return t.defined() ? Tensor::from_values(t.shape(), t.to_values(), DType::kF64, kReferenceDevice) : t;
}

inline void expect_near(const Tensor& got, const Tensor& want, double relative, const std::string& where) {
  const Numbers a = got.to_values(), b = want.to_values();
  ASSERT_EQ(a.size(), b.size()) << where;
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], relative * (std::abs(b[i]) + 1)) << where << " element " << i;
}

}  // namespace tandem::testing

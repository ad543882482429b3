// Elements of device memory as floats: conversions of the 16-bit formats, matrices of rows and channels, and
// divisions of 64-bit indices. All arithmetic of the kernels is on the floats.
#pragma once

#include <cstdint>

#include "core/base/half.h"
#include "core/base/host_device.h"
#include "core/kernels/math.h"
#include "core/tensor/dtype.h"

namespace tandem::cuda {

TD_HD float widen(float x) { return x; }
TD_HD float widen(BFloat16 x) {
  return kernels::bits_float(static_cast<std::int32_t>(static_cast<std::uint32_t>(x.bits) << 16));
}
// Exact. On the device one instruction (PTX ISA, cvt), elsewhere half.h's function.
TD_HD float widen(Half x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  return to_float(x);
#endif
}

// Rounded to nearest even.
template <class T>
TD_HD T narrow(float x);
template <>
TD_HD float narrow<float>(float x) {
  return x;
}
template <>
TD_HD BFloat16 narrow<BFloat16>(float x) {
  const std::uint32_t f = static_cast<std::uint32_t>(kernels::float_bits(x));
  const std::uint32_t rounded = (f + 0x7fffu + ((f >> 16) & 1u)) >> 16, nan = (f >> 16) | 0x40u;
  return BFloat16{static_cast<std::uint16_t>((f & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}
template <>
TD_HD Half narrow<Half>(float x) {
#if defined(__CUDA_ARCH__)
  Half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  return to_half(x);
#endif
}

// In place of an element type: each operand has its own dtype, known at run time.
struct Mixed {};

TD_HD float read_as(const void* data, DType dtype, std::int64_t i) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[i];
  if (dtype == DType::kF16) return widen(static_cast<const Half*>(data)[i]);
  return widen(static_cast<const BFloat16*>(data)[i]);
}
TD_HD void write_as(void* data, DType dtype, std::int64_t i, float x) {
  if (dtype == DType::kF32)
    static_cast<float*>(data)[i] = x;
  else if (dtype == DType::kF16)
    static_cast<Half*>(data)[i] = narrow<Half>(x);
  else
    static_cast<BFloat16*>(data)[i] = narrow<BFloat16>(x);
}

// Element (row, c) at data[row * pitch + c].
template <class T>
struct Elements {
  T* data = nullptr;
  std::int64_t pitch = 0;

  TD_HD float read(std::int64_t row, std::int64_t c) const { return widen(data[row * pitch + c]); }
  TD_HD void write(std::int64_t row, std::int64_t c, float x) const { data[row * pitch + c] = narrow<T>(x); }
};
template <>
struct Elements<Mixed> {
  void* data = nullptr;
  std::int64_t pitch = 0;
  DType dtype = DType::kF32;

  TD_HD float read(std::int64_t row, std::int64_t c) const { return read_as(data, dtype, row * pitch + c); }
  TD_HD void write(std::int64_t row, std::int64_t c, float x) const {
    write_as(data, dtype, row * pitch + c, x);
  }
};

// a / b of numbers >= 0. Devices divide 32 bits several times faster than 64.
TD_HD std::int64_t divide(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}

// i = row * columns + column.
struct Place {
  std::int64_t row, column;
};
TD_HD Place split(std::int64_t i, std::int64_t columns) {
  if (columns == 1) return {i, 0};
  const std::int64_t row = divide(i, columns);
  return {row, i - row * columns};
}

// i = ((n * size[0] + at[0]) * size[1] + at[1]) * size[2] + at[2].
struct Voxel {
  std::int64_t n, at[3];
};
TD_HD Voxel voxel_of(std::int64_t i, const std::int64_t size[3]) {
  const Place x = split(i, size[2]), y = split(x.row, size[1]), z = split(y.row, size[0]);
  return {z.row, {z.column, y.column, x.column}};
}

}  // namespace tandem::cuda

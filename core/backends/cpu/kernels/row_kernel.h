// The register tiles of RowJob and GradientJob (kernel_table.h): kM rows of kN vectors of accumulators.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "core/backends/cpu/kernels/kernel_table.h"
#include "core/backends/cpu/kernels/vec.h"

namespace tandem::TD_ISA_NAMESPACE {

// Tile heights that fill the register file: 12 accumulators of 16 registers, 24 of 32.
inline constexpr int kTallRows = Vec::kLanes == 16 ? 24 : 12;  // one vector wide
inline constexpr int kWideRows = kTallRows / 2;                // two vectors wide

template <int kM, int kN>
TD_INLINE void multiply_add(const float* const* a, std::int64_t i, const float* b, Vec (&acc)[kM][kN]) {
  Vec weights[kN];
#pragma GCC unroll 2
  for (int n = 0; n < kN; ++n) weights[n] = load(b + n * Vec::kLanes);
#pragma GCC unroll 24
  for (int m = 0; m < kM; ++m) {
    const Vec value = broadcast(a[m] + i);
#pragma GCC unroll 2
    for (int n = 0; n < kN; ++n) acc[m][n] = fma(value, weights[n], acc[m][n]);
  }
}

template <int kM, int kN>
static void row_tile(const RowJob& job, std::int64_t first) {
  constexpr int kWidth = kN * Vec::kLanes;
  Vec acc[kM][kN];
#pragma GCC unroll 24
  for (int m = 0; m < kM; ++m)
#pragma GCC unroll 2
    for (int n = 0; n < kN; ++n) acc[m][n] = load(job.init + n * Vec::kLanes);
  for (std::int64_t s = 0; s < job.segment_count; ++s) {
    const float* a[kM];
#pragma GCC unroll 24
    for (int m = 0; m < kM; ++m) a[m] = job.segments[s].a + (first + m) * job.a_step;
    const float* b = job.segments[s].b;
    for (std::int64_t i = 0; i < job.length; ++i, b += kWidth) multiply_add<kM, kN>(a, i, b, acc);
  }
  float* out = job.out + first * kWidth;
#pragma GCC unroll 24
  for (int m = 0; m < kM; ++m)
#pragma GCC unroll 2
    for (int n = 0; n < kN; ++n) store(out + m * kWidth + n * Vec::kLanes, acc[m][n]);
}

template <int kM, int kN>
static void gradient_tile(const GradientJob& job, std::int64_t first) {
  constexpr int kWidth = kN * Vec::kLanes;
  Vec acc[kM][kN];
  float* out = job.acc + first * kWidth;
#pragma GCC unroll 24
  for (int m = 0; m < kM; ++m)
#pragma GCC unroll 2
    for (int n = 0; n < kN; ++n) acc[m][n] = load(out + m * kWidth + n * Vec::kLanes);
  for (std::int64_t r = 0; r < job.rows; ++r) {
    const float* x = job.x[r] + first;
    const float* dy = job.dy[r];
    for (std::int64_t j = 0; j < job.voxels; ++j, x += job.x_step, dy += kWidth) {
      Vec gradient[kN];
#pragma GCC unroll 2
      for (int n = 0; n < kN; ++n) gradient[n] = load(dy + n * Vec::kLanes);
#pragma GCC unroll 24
      for (int m = 0; m < kM; ++m) {
        const Vec value = broadcast(x + m);
#pragma GCC unroll 2
        for (int n = 0; n < kN; ++n) acc[m][n] = fma(value, gradient[n], acc[m][n]);
      }
    }
  }
#pragma GCC unroll 24
  for (int m = 0; m < kM; ++m)
#pragma GCC unroll 2
    for (int n = 0; n < kN; ++n) store(out + m * kWidth + n * Vec::kLanes, acc[m][n]);
}

}  // namespace tandem::TD_ISA_NAMESPACE

// The inner kernels of convolution and matmul at one instruction-set level: plain pointers, one thread, FP32
// inside. Loops over volumes, threads and packing are conv_direct's subject.
#pragma once

#include <cstdint>

#include "core/backends/cpu/isa.h"
#include "core/tensor/dtype.h"

namespace tandem {

// One run of `length` products: a[j * a_step + i] times b[i][0..width).
struct KernelSegment {
  const float* a = nullptr;  // at voxel 0
  const float* b = nullptr;
};

// out[j][n] = init[n] + sum over segments s and i < length of s.a[j * a_step + i] * s.b[i * width + n], for
// voxels j and n < width: a batch of small matrix products into the same rows.
struct RowJob {
  const KernelSegment* segments = nullptr;
  std::int64_t segment_count = 0, length = 0, a_step = 0, voxels = 0;
  int width = 0;                // lanes or 2 * lanes
  const float* init = nullptr;  // [width]
  float* out = nullptr;         // [voxels][width]
};

// acc[m][n] += sum over rows r and voxels j of x[r][j * x_step + m] * dy[r][j * width + n], for m < m_count.
struct GradientJob {
  const float* const* x = nullptr;
  const float* const* dy = nullptr;
  std::int64_t rows = 0, voxels = 0, x_step = 0, m_count = 0;
  int width = 0;
  float* acc = nullptr;  // [m_count][width]
};

// `rows` rows of `columns` elements; pitches in elements. `dtype` is that of the side that is not FP32.
struct CopyJob {
  DType dtype = DType::kF32;
  const void* src = nullptr;
  std::int64_t src_pitch = 0;
  void* dst = nullptr;
  std::int64_t dst_pitch = 0, rows = 1, columns = 0;
};

// n FP16 values as parts of split.h, each n elements of BF16, or of F32 holding BF16 values. finite: hi, or 0
// where hi is not finite.
struct SplitJob {
  DType element = DType::kBF16;
  const void* src = nullptr;
  void *hi = nullptr, *lo = nullptr, *finite = nullptr;
  std::int64_t n = 0;
};

struct KernelTable {
  int lanes = 0;
  void (*row)(const RowJob&) = nullptr;
  void (*gradient)(const GradientJob&) = nullptr;
  // src (dtype F32, F16 or BF16) to FP32 dst, which is the caller's own: what lies between its rows may be
  // overwritten.
  void (*widen)(const CopyJob&) = nullptr;
  // FP32 src to dst (dtype), rounded to nearest even, subnormals and infinities kept. Nothing beside the rows
  // is written.
  void (*narrow)(const CopyJob&) = nullptr;
  void (*split)(const SplitJob&) = nullptr;
};

namespace isa_v2 {
const KernelTable& kernel_table();
}
namespace isa_v3 {
const KernelTable& kernel_table();
}
namespace isa_v4 {
const KernelTable& kernel_table();
}

// The table of `isa` (kAmx uses v4's). The caller makes sure that the machine has it.
inline const KernelTable& kernel_table(CpuIsa isa) {
  if (isa == CpuIsa::kV2) return isa_v2::kernel_table();
  return isa == CpuIsa::kV3 ? isa_v3::kernel_table() : isa_v4::kernel_table();
}

}  // namespace tandem

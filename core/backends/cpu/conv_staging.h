// Copies between a tensor's rows and an engine's packed operands: pitch removed, 16-bit values widened or
// split, results rounded once. Which engine wants what is decided by its caller.
#pragma once

#include "core/backends/cpu/conv_direct.h"
#include "core/backends/cpu/kernels/kernel_table.h"
#include "core/backends/cpu/split.h"

namespace tandem {

enum class StageKind { kCopy, kWiden, kSplit };

struct StageJob {
  StageKind kind = StageKind::kCopy;
  VoxelRows src;
  std::int64_t rows = 0, columns = 0;
  void* dst = nullptr;
  // kSplit only. The element of the parts (BF16 or F32); their order; and where they go: one after the other
  // within each row ([rows, 3 columns]), or each as a whole matrix ([3, rows, columns]).
  DType element = DType::kBF16;
  SplitSide side = SplitSide::kLeft;
  bool stacked = false;
};

// Bytes that stage_rows writes.
std::int64_t staged_bytes(const StageJob& job);
void stage_rows(const KernelTable& kernels, const StageJob& job);
// Packed `src` of dtype `from` (F32, or dst's own) to the rows of dst.
void unstage_rows(const KernelTable& kernels, const void* src, DType from, std::int64_t rows,
                  std::int64_t columns, const MutableVoxelRows& dst);

}  // namespace tandem

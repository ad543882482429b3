// Staging copies, spread over the threads by rows.
#include "core/backends/cpu/conv_staging.h"

#include <algorithm>
#include <cstring>

#include "core/backends/cpu/conv_context.h"
#include "core/base/parallel.h"

namespace tandem {
namespace {

constexpr std::int64_t kGrainElements = 1 << 14;

std::int64_t grain(std::int64_t columns) {
  return std::max<std::int64_t>(1, kGrainElements / std::max<std::int64_t>(columns, 1));
}

std::int64_t bytes_of(DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); }

void copy_rows(const VoxelRows& src, std::int64_t rows, std::int64_t columns, const MutableVoxelRows& dst) {
  const std::int64_t size = bytes_of(src.dtype);
  for (std::int64_t r = 0; r < rows; ++r)
    std::memcpy(static_cast<char*>(dst.data) + r * dst.pitch * size,
                static_cast<const char*>(src.data) + r * src.pitch * size,
                static_cast<std::size_t>(columns * size));
}

// Rows [begin, end) of a split: the three parts of each row to their places.
void split_part(const KernelTable& kernels, const StageJob& job, std::int64_t begin, std::int64_t end) {
  const std::int64_t size = bytes_of(job.element);
  const std::int64_t row_step = job.stacked ? job.columns : kSplitParts * job.columns;
  const std::int64_t part_step = job.stacked ? job.rows * job.columns : job.columns;
  const bool left = job.side == SplitSide::kLeft;
  // Touching rows are one run when each part has a matrix of its own.
  const bool one_run = job.stacked && job.src.pitch == job.columns;
  const std::int64_t runs = one_run ? 1 : end - begin,
                     length = one_run ? (end - begin) * job.columns : job.columns;
  for (std::int64_t i = 0; i < runs; ++i) {
    char* row = static_cast<char*>(job.dst) + (begin + i) * row_step * size;
    char* second = row + part_step * size;
    char* third = second + part_step * size;
    kernels.split({job.element, rows_from(job.src, begin + i).data, row, left ? second : third,
                   left ? third : second, length});
  }
}

}  // namespace

std::int64_t staged_bytes(const StageJob& job) {
  const std::int64_t elements = job.rows * job.columns;
  if (job.kind == StageKind::kCopy) return elements * bytes_of(job.src.dtype);
  if (job.kind == StageKind::kWiden) return elements * bytes_of(DType::kF32);
  return kSplitParts * elements * bytes_of(job.element);
}

void stage_rows(const KernelTable& kernels, const StageJob& job) {
  parallel_for(job.rows, grain(job.columns), [&](std::int64_t begin, std::int64_t end) {
    if (job.kind == StageKind::kSplit) return split_part(kernels, job, begin, end);
    const VoxelRows src = rows_from(job.src, begin);
    if (job.kind == StageKind::kCopy)
      return copy_rows(src, end - begin, job.columns,
                       rows_from(MutableVoxelRows{job.dst, src.dtype, job.columns}, begin));
    kernels.widen({src.dtype, src.data, src.pitch, static_cast<float*>(job.dst) + begin * job.columns,
                   job.columns, end - begin, job.columns});
  });
}

void unstage_rows(const KernelTable& kernels, const void* src, DType from, std::int64_t rows,
                  std::int64_t columns, const MutableVoxelRows& dst) {
  const VoxelRows packed{src, from, columns};
  parallel_for(rows, grain(columns), [&](std::int64_t begin, std::int64_t end) {
    const MutableVoxelRows to = rows_from(dst, begin);
    if (from == dst.dtype) return copy_rows(rows_from(packed, begin), end - begin, columns, to);
    kernels.narrow(
        {dst.dtype, rows_from(packed, begin).data, columns, to.data, to.pitch, end - begin, columns});
  });
}

}  // namespace tandem

// What the loops are given that move or weigh whole voxels: reorder, boxes, resize, dropout, blocks to
// volume. The others' structs and the function table: loops.h.
#pragma once

#include "core/backends/cpu/loops/matrix.h"

namespace tandem {

struct ReorderLoop {
  int threads;
  const void* from;
  void* to;
  std::int64_t element_bytes, batch, rows, columns;  // each [rows, columns] becomes [columns, rows]
};

// axes >= 2, the last with to_stride 1 where any has it; tasks are rows_per_task of the axis before it.
struct MoveLoop {
  int threads, axes;
  const void* from;
  void* to;
  std::int64_t element_bytes, from_offset, to_offset, rows_per_task;
  std::int64_t size[8], from_stride[8], to_stride[8];
};

// Tables per axis: ResizeAxis of kernel_args.h.
struct ResizeLoop {
  int threads;
  bool adjoint;
  std::int64_t batch, x_size[3], y_size[3];
  Matrix x, y;
  const std::int32_t *low[3], *high[3], *begin[3], *end[3];
  const float* weight[3];
};

struct DropoutLoop {
  int threads;
  Chunks chunks;  // of all elements
  const void* x;
  void* y;
  DType dtype;
  std::uint32_t key[2], counter[4], threshold;
  float scale;
};

// kernel = stride: a volume row of depth z, height y holds, for tap row (kd, kh), runs of stride_w * channels
// elements; blocks has a row per input voxel.
struct DepthToSpaceLoop {
  int threads;
  bool inverse;
  Matrix blocks, volume;
  const float* bias;  // [channels] or null
  std::int64_t batch, in[3], stride[3];
};

}  // namespace tandem

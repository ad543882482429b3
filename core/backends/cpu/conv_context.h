// What convolution and matmul of one backend share: the target, the kernels of its level, oneDNN, packed
// weights.
#pragma once

#include "core/backends/cpu/conv_direct.h"
#include "core/backends/cpu/conv_tiles.h"
#include "core/backends/cpu/isa.h"
#include "core/backends/cpu/kernels/kernel_table.h"
#include "core/backends/cpu/onednn.h"
#include "core/backends/cpu/packed_weights.h"

namespace tandem {

struct ConvContext {
  explicit ConvContext(const CpuTarget& for_target) : ConvContext(for_target, kernel_table(for_target.isa)) {}
  // On given kernels. `element`: what the parts of a split FP16 value are stored in. BF16 for AMX; F32
  // computes the same numbers on any machine (tests).
  ConvContext(const CpuTarget& for_target, const KernelTable& table, DType element = DType::kBF16)
      : target(for_target),
        split_element(element),
        kernels(table),
        onednn(for_target),
        direct(kernels),
        tiles(kernels, for_target.isa == CpuIsa::kAmx ? run_tile_row_amx : run_tile_row_portable) {}

  CpuTarget target;
  DType split_element;
  const KernelTable& kernels;
  OneDnn onednn;
  DirectConv direct;
  TileConv tiles;
  PackedWeights packed;
};

inline VoxelRows rows_of(const Tensor& t) { return {t.raw(), t.dtype(), t.channel_pitch()}; }
inline MutableVoxelRows mutable_rows_of(const Tensor& t) { return {t.raw(), t.dtype(), t.channel_pitch()}; }

inline VoxelRows rows_from(const VoxelRows& rows, std::int64_t first) {
  return {rows.at(first * rows.pitch), rows.dtype, rows.pitch};
}
inline MutableVoxelRows rows_from(const MutableVoxelRows& rows, std::int64_t first) {
  return {rows.at(first * rows.pitch), rows.dtype, rows.pitch};
}

}  // namespace tandem

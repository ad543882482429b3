// Convolution in FP16 on matrix tiles for BF16: direct, channels-last, each value split in cache into the
// parts of split.h, so that no copy of a tensor is made. Which shapes use it is conv_engine.h's subject.
#pragma once

#include "core/backends/cpu/conv_direct.h"
#include "core/backends/cpu/tiles/tile_kernels.h"

namespace tandem {

// Groups of one, FP16 operands, an even number of source channels. Each product is within 2^-16 relative.
// Results are the same bits for any number of threads.
class TileConv {
 public:
  // row: run_tile_row_amx, or the portable one in tests.
  TileConv(const KernelTable& kernels, void (*row)(const TileRowJob&)) : kernels_(&kernels), row_(row) {}

  // Elements (of 16 bits) of the packed weights of a pass, the last of which says whether all are finite;
  // `data_gradient`: the pass from dy to dx.
  std::int64_t packed_elements(const ConvGeometry& g, bool data_gradient) const;
  // w: FP16 values in FP32.
  void pack_weights(const ConvGeometry& g, bool data_gradient, const float* w, const WeightStrides& strides,
                    std::uint16_t* packed) const;

  // y = conv(x) + bias (nullptr: none). Overwrites y.
  void forward(const ConvGeometry& g, const VoxelRows& x, const std::uint16_t* packed, const float* bias,
               const MutableVoxelRows& y) const;
  // dx = conv^T(dy). Overwrites dx.
  void backward_data(const ConvGeometry& g, const VoxelRows& dy, const std::uint16_t* packed,
                     const MutableVoxelRows& dx) const;

 private:
  const KernelTable* kernels_;
  void (*row_)(const TileRowJob&);
};

}  // namespace tandem

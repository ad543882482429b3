// Convolution by our own kernels: direct, channels-last, FP32 inside, rows converted in cache. Which shapes
// use it is conv_engine.h's subject; the register tiles are in kernels/.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/backends/cpu/kernels/kernel_table.h"
#include "core/backends/kernel_args.h"

namespace tandem {

// Channels-last voxels `pitch` elements apart.
struct VoxelRows {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t pitch = 0;
  const void* at(std::int64_t i) const {
    return static_cast<const char*>(data) + i * static_cast<std::int64_t>(size_of(dtype));
  }
};
struct MutableVoxelRows {
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t pitch = 0;
  void* at(std::int64_t i) const {
    return static_cast<char*>(data) + i * static_cast<std::int64_t>(size_of(dtype));
  }
};

// Element (k, tap, c) of a weight lies at k * this->k + tap * this->tap + c * this->c.
struct WeightStrides {
  std::int64_t k = 0, tap = 0, c = 0;
};
// [K, taps, C]
inline WeightStrides dense_weights(const ConvGeometry& g) {
  const std::int64_t c = g.in_channels / g.groups;
  return {g.taps() * c, c, 1};
}

// A slice of output channels computed together.
struct ChannelBlock {
  std::int64_t first = 0, count = 0;
  int width = 0;                    // lanes or 2 * lanes, >= count
  std::int64_t weights_offset = 0;  // floats before this block, per source channel and tap
};
std::vector<ChannelBlock> channel_blocks(std::int64_t channels, int lanes);

// Groups of one only. Results are the same bits for any number of threads: every output sums its products in
// one order, and the weight gradient is a sum of partial sums over parts of the volume that the shape alone
// decides.
class DirectConv {
 public:
  explicit DirectConv(const KernelTable& kernels) : kernels_(&kernels) {}

  // Floats of the packed weights of a pass; `data_gradient`: the pass from dy to dx.
  std::int64_t packed_floats(const ConvGeometry& g, bool data_gradient) const;
  void pack_weights(const ConvGeometry& g, bool data_gradient, const float* w, const WeightStrides& strides,
                    float* packed) const;

  // y = conv(x) + bias (nullptr: none). Overwrites y.
  void forward(const ConvGeometry& g, const VoxelRows& x, const float* packed, const float* bias,
               const MutableVoxelRows& y) const;
  // dx = conv^T(dy). Overwrites dx. Any stride: one run of the row kernel per phase of the stride along the
  // width.
  void backward_data(const ConvGeometry& g, const VoxelRows& dy, const float* packed,
                     const MutableVoxelRows& dx) const;
  // dw (at `strides`) += the gradient. Positions outside the volume enter as zeros, so that an infinite
  // gradient at the border makes NaN there where skipping it would not.
  void backward_weights(const ConvGeometry& g, const VoxelRows& x, const VoxelRows& dy, float* dw,
                        const WeightStrides& strides) const;

 private:
  const KernelTable* kernels_;
};

}  // namespace tandem

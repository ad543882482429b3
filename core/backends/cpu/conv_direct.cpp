// Forward and data gradient with source rows in FP32, on the row kernel of an instruction-set level; the
// packing of weights for it.
#include "core/backends/cpu/conv_direct.h"

#include <algorithm>

#include "core/backends/cpu/gather_task.h"

namespace tandem {
namespace {

class FloatRows {
 public:
  using Element = float;
  using Segment = KernelSegment;
  using Job = RowJob;
  static constexpr std::int64_t kPlanes = 1;

  explicit FloatRows(const KernelTable& kernels) : kernels_(kernels) {}
  int lanes() const { return kernels_.lanes; }
  void load(const CopyJob& job, std::int64_t) const { kernels_.widen(job); }
  void multiply(const RowJob& job, std::int64_t) const { kernels_.row(job); }
  void narrow(const CopyJob& job) const { kernels_.narrow(job); }

 private:
  const KernelTable& kernels_;
};

}  // namespace

std::vector<ChannelBlock> channel_blocks(std::int64_t channels, int lanes) {
  std::vector<ChannelBlock> blocks;
  std::int64_t offset = 0;
  for (std::int64_t first = 0; first < channels; first += 2 * lanes) {
    const std::int64_t count = std::min<std::int64_t>(2 * lanes, channels - first);
    const int width = count <= lanes ? lanes : 2 * lanes;
    blocks.push_back({first, count, width, offset});
    offset += width;
  }
  return blocks;
}

std::int64_t DirectConv::packed_floats(const ConvGeometry& g, bool data_gradient) const {
  const GatherPlan plan = gather_plan(g, data_gradient);
  const ChannelBlock last = channel_blocks(plan.output_channels, kernels_->lanes).back();
  return (last.weights_offset + last.width) * plan.taps() * plan.source_channels;
}

void DirectConv::pack_weights(const ConvGeometry& g, bool data_gradient, const float* w,
                              const WeightStrides& strides, float* packed) const {
  const GatherPlan plan = gather_plan(g, data_gradient);
  const std::int64_t output_stride = data_gradient ? strides.c : strides.k;
  const std::int64_t source_stride = data_gradient ? strides.k : strides.c;
  const std::int64_t planes = plan.axes[0].taps * plan.axes[1].taps;
  for (const ChannelBlock& block : channel_blocks(plan.output_channels, kernels_->lanes))
    for (const WidthPhase& phase : plan.phases)
      for (std::int64_t plane = 0; plane < planes; ++plane)
        for (const std::int64_t tap : phase.taps) {
          const float* from =
              w + (plane * plan.axes[2].taps + tap) * strides.tap + block.first * output_stride;
          for (std::int64_t c = 0; c < plan.source_channels; ++c, packed += block.width)
            for (std::int64_t k = 0; k < block.width; ++k)
              packed[k] = k < block.count ? from[c * source_stride + k * output_stride] : 0.0f;
        }
}

void DirectConv::forward(const ConvGeometry& g, const VoxelRows& x, const float* packed, const float* bias,
                         const MutableVoxelRows& y) const {
  const GatherPlan plan = gather_plan(g, false);
  const FloatRows form(*kernels_);
  GatherCall<FloatRows> call{form, plan, {}, {}, x, y, packed};
  run_gather(call, g.batch, bias);
}

void DirectConv::backward_data(const ConvGeometry& g, const VoxelRows& dy, const float* packed,
                               const MutableVoxelRows& dx) const {
  const GatherPlan plan = gather_plan(g, true);
  const FloatRows form(*kernels_);
  GatherCall<FloatRows> call{form, plan, {}, {}, dy, dx, packed};
  run_gather(call, g.batch, nullptr);
}

}  // namespace tandem

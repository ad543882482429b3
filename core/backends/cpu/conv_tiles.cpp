// Source rows as planes of hi, lo and finite; the packing of weights as tiles of hi, finite and lo.
#include "core/backends/cpu/conv_tiles.h"

#include <cmath>
#include <cstring>

#include "core/backends/cpu/gather_task.h"
#include "core/base/half.h"

namespace tandem {
namespace {

class SplitRows {
 public:
  using Element = std::uint16_t;
  using Segment = TileSegment;
  using Job = TileRowJob;
  static constexpr std::int64_t kPlanes = kTileParts;

  SplitRows(const KernelTable& kernels, void (*row)(const TileRowJob&), bool finite_weights)
      : kernels_(kernels), row_(row), is_finite_(finite_weights) {}
  int lanes() const { return kTileColumns; }
  void load(const CopyJob& job, std::int64_t plane) {
    const bool is_one_run = job.src_pitch == job.columns;
    const std::int64_t runs = is_one_run ? 1 : job.rows,
                       n = is_one_run ? job.rows * job.columns : job.columns;
    for (std::int64_t r = 0; r < runs; ++r) {
      auto* hi = static_cast<std::uint16_t*>(job.dst) + r * job.dst_pitch;
      const auto* src = static_cast<const std::uint16_t*>(job.src) + r * job.src_pitch;
      kernels_.split({DType::kBF16, src, hi, hi + plane, hi + 2 * plane, n});
      is_finite_ =
          is_finite_ && std::memcmp(hi, hi + 2 * plane, static_cast<std::size_t>(n) * sizeof(*hi)) == 0;
    }
  }
  void multiply(TileRowJob& job, std::int64_t plane) const {
    job.plane = plane;
    job.is_finite = is_finite_;
    row_(job);
  }
  void narrow(const CopyJob& job) const { kernels_.narrow(job); }

 private:
  const KernelTable& kernels_;
  void (*row_)(const TileRowJob&);
  bool is_finite_;  // weights, and all rows that were loaded
};

// The parts of a right operand, in order.
std::array<std::uint16_t, 3> right_parts(float value) {
  const BFloat16 hi = to_bfloat16(value);
  if (!std::isfinite(value)) return {hi.bits, 0, 0};
  return {hi.bits, hi.bits, to_bfloat16(value - to_float(hi)).bits};
}

// What a run of taps is packed from: their first weights, and the steps from source and output channel to the
// next.
struct RunWeights {
  std::vector<const float*> taps;
  std::int64_t channels = 0, source_stride = 0, output_stride = 0;
};

// Every product i = tap * C + c of every part, for the `count` taps from `first` on.
void pack_run(const RunWeights& from, std::size_t first, std::int64_t count, const ChannelBlock& block,
              std::uint16_t* packed) {
  const std::int64_t length = count * from.channels;
  const int chunk = tile_chunk(length);
  const std::int64_t part_step = static_cast<std::int64_t>(chunk) * block.width;
  for (std::int64_t i = 0; i < length; ++i) {
    const float* weights = from.taps[first + static_cast<std::size_t>(i / from.channels)] +
                           i % from.channels * from.source_stride;
    std::uint16_t* at = packed + tile_offset(length, block.width, 0, i, 0);
    for (int n = 0; n < block.width; ++n) {
      const auto parts = right_parts(n < block.count ? weights[n * from.output_stride] : 0.0f);
      std::uint16_t* to = at + n / kTileColumns * chunk * kTileColumns + n % kTileColumns * 2;
      for (std::size_t p = 0; p < parts.size(); ++p) to[static_cast<std::int64_t>(p) * part_step] = parts[p];
    }
  }
}

// Of the packed weights, without the flag behind them.
std::int64_t weight_elements(const GatherPlan& plan) {
  const ChannelBlock last = channel_blocks(plan.output_channels, kTileColumns).back();
  return (last.weights_offset + last.width) * plan.taps() * plan.source_channels * SplitRows::kPlanes;
}

}  // namespace

std::int64_t TileConv::packed_elements(const ConvGeometry& g, bool data_gradient) const {
  return weight_elements(gather_plan(g, data_gradient)) + 1;
}

void TileConv::pack_weights(const ConvGeometry& g, bool data_gradient, const float* w,
                            const WeightStrides& strides, std::uint16_t* packed) const {
  const GatherPlan plan = gather_plan(g, data_gradient);
  RunWeights from{
      {}, plan.source_channels, data_gradient ? strides.k : strides.c, data_gradient ? strides.c : strides.k};
  const std::int64_t planes = plan.axes[0].taps * plan.axes[1].taps;
  for (const ChannelBlock& block : channel_blocks(plan.output_channels, kTileColumns))
    for (const WidthPhase& phase : plan.phases)
      for (std::int64_t plane = 0; plane < planes; ++plane) {
        from.taps.clear();
        for (const std::int64_t tap : phase.taps)
          from.taps.push_back(w + (plane * plan.axes[2].taps + tap) * strides.tap +
                              block.first * from.output_stride);
        const auto taps = static_cast<std::int64_t>(phase.taps.size()), run = phase.consecutive ? taps : 1;
        for (std::int64_t t = 0; t < taps; t += run) {
          pack_run(from, static_cast<std::size_t>(t), run, block, packed);
          packed += run * plan.source_channels * block.width * SplitRows::kPlanes;
        }
      }
  const std::int64_t count = g.out_channels * g.taps() * g.in_channels;
  *packed = std::all_of(w, w + count, [](float value) { return std::isfinite(value); }) ? 1 : 0;
}

void TileConv::forward(const ConvGeometry& g, const VoxelRows& x, const std::uint16_t* packed,
                       const float* bias, const MutableVoxelRows& y) const {
  const GatherPlan plan = gather_plan(g, false);
  const SplitRows form(*kernels_, row_, packed[weight_elements(plan)] != 0);
  GatherCall<SplitRows> call{form, plan, {}, {}, x, y, packed};
  run_gather(call, g.batch, bias);
}

void TileConv::backward_data(const ConvGeometry& g, const VoxelRows& dy, const std::uint16_t* packed,
                             const MutableVoxelRows& dx) const {
  const GatherPlan plan = gather_plan(g, true);
  const SplitRows form(*kernels_, row_, packed[weight_elements(plan)] != 0);
  GatherCall<SplitRows> call{form, plan, {}, {}, dy, dx, packed};
  run_gather(call, g.batch, nullptr);
}

}  // namespace tandem

// Forward and data gradient: tiles of output rows over the threads, source rows converted into a padded copy
// in cache, then the row kernel over all taps and source channels per block of output channels.
#include "core/backends/cpu/conv_direct.h"

#include <algorithm>

#include "core/backends/cpu/conv_gather.h"
#include "core/backends/cpu/conv_tasks.h"
#include "core/backends/cpu/scratch.h"

namespace tandem {
namespace {

constexpr std::int64_t kRowFloats =
    6 * 1024;  // of one source row: a few rows fit in L1 beside the weights in use
constexpr std::int64_t kTileFloats = 56 * 1024;  // of the source rows of a tile: about half of a 512 KiB L2
constexpr std::int64_t kVoxelMultiple = 24;      // a multiple of every tile height

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

const void* element(const void* base, DType dtype, std::int64_t i) {
  return static_cast<const char*>(base) + i * static_cast<std::int64_t>(size_of(dtype));
}
void* element(void* base, DType dtype, std::int64_t i) {
  return static_cast<char*>(base) + i * static_cast<std::int64_t>(size_of(dtype));
}

// Outputs of one task per axis; the width counts outputs of a phase.
struct TileSizes {
  std::int64_t depth = 1, height = 1, width = 1;
};

// Sources that `outputs` neighbours on an axis reach over.
std::int64_t reach(const GatherAxis& axis, std::int64_t outputs) {
  const std::int64_t span = (axis.taps - 1) * axis.dilation + 1;
  return axis.transposed ? (outputs + span - 2) / axis.stride + 1 : (outputs - 1) * axis.stride + span;
}

// Floats of a padded source row for `outputs` outputs of a phase.
std::int64_t row_voxels(const GatherPlan& plan, std::int64_t outputs) {
  std::int64_t low = 0, high = 0;
  bool any = false;
  for (const WidthPhase& phase : plan.phases) {
    if (phase.bases.empty()) continue;
    low = any ? std::min(low, phase.bases.front()) : phase.bases.front();
    high = any ? std::max(high, phase.bases.back()) : phase.bases.back();
    any = true;
  }
  return high - low + (outputs - 1) * plan.source_step + 1;
}

// Fills the caches and leaves a few tasks per thread. Any choice gives the same bits.
TileSizes tile_sizes(const GatherPlan& plan, std::int64_t batch) {
  TileSizes tile;
  const std::int64_t width = plan.phase_outputs(plan.phases.front());
  const std::int64_t fitting =
      std::max(kVoxelMultiple, kRowFloats / (plan.source_channels * plan.source_step));
  const std::int64_t parts = ceil_divide(width, fitting);
  tile.width = parts == 1 ? width : ceil_divide(ceil_divide(width, parts), kVoxelMultiple) * kVoxelMultiple;
  const std::int64_t row = row_voxels(plan, tile.width) * plan.source_channels;
  const std::int64_t wanted_tasks = 4 * compute_threads();
  for (bool grown = true; grown;) {
    grown = false;
    for (const int axis : {1, 0}) {
      TileSizes next = tile;
      (axis == 0 ? next.depth : next.height) += 1;
      const auto& depth = plan.axes[0];
      const auto& height = plan.axes[1];
      const std::int64_t tasks = batch * ceil_divide(depth.outputs, next.depth) *
                                 ceil_divide(height.outputs, next.height) * ceil_divide(width, tile.width);
      const bool fits = reach(depth, next.depth) * reach(height, next.height) * row <= kTileFloats;
      const bool inside = next.depth <= depth.outputs && next.height <= height.outputs;
      if (!fits || !inside || tasks < wanted_tasks) continue;
      tile = next;
      grown = true;
    }
  }
  return tile;
}

struct GatherCall {
  const KernelTable& kernels;
  const GatherPlan& plan;
  std::vector<ChannelBlock> blocks;
  TileSizes tile;
  VoxelRows source;
  MutableVoxelRows output;
  const float* weights;
  const float* bias;  // padded to the blocks' widths
};

// One task: the outputs of a tile, on one thread.
class Tile {
 public:
  Tile(const GatherCall& call, float* scratch) : call_(call), scratch_(scratch) {}

  // Floats of scratch that any tile of the call needs: source rows, an output row.
  static std::int64_t scratch_floats(const GatherCall& call) {
    const GatherPlan& plan = call.plan;
    const std::int64_t rows = reach(plan.axes[0], call.tile.depth) * reach(plan.axes[1], call.tile.height);
    return rows * row_voxels(plan, call.tile.width) * plan.source_channels +
           call.tile.width * 2 * call.kernels.lanes + segment_floats(plan);
  }

  void run(std::int64_t n, const IndexRange& depth, const IndexRange& height, const IndexRange& width) {
    n_ = n;
    width_ = width;
    load_sources(depth, height);
    for (const ChannelBlock& block : call_.blocks)
      for (std::int64_t d = depth.begin; d < depth.end; ++d)
        for (std::int64_t h = height.begin; h < height.end; ++h)
          for (const WidthPhase& phase : call_.plan.phases) compute_row(block, d, h, phase);
  }

 private:
  static std::int64_t segment_floats(const GatherPlan& plan) {
    return plan.taps() * static_cast<std::int64_t>(sizeof(KernelSegment) / sizeof(float)) + 16;
  }

  std::int64_t row_floats() const { return source_width_.size() * call_.plan.source_channels; }
  float* source_row(std::int64_t d, std::int64_t h) {
    const std::int64_t row = (d - source_depth_.begin) * source_height_.size() + h - source_height_.begin;
    return rows_ + row * row_floats();
  }

  // Copies the rows that the tile reads, in FP32, with zeros where they leave the volume.
  void load_sources(const IndexRange& depth, const IndexRange& height) {
    const GatherPlan& plan = call_.plan;
    segments_ = reinterpret_cast<KernelSegment*>(scratch_);
    out_ = scratch_ + segment_floats(plan);
    rows_ = out_ + call_.tile.width * 2 * call_.kernels.lanes;
    source_depth_ = plan.axes[0].sources_of(depth);
    source_height_ = plan.axes[1].sources_of(height);
    source_width_ = width_sources();
    for (std::int64_t d = source_depth_.begin; d < source_depth_.end; ++d)
      for (std::int64_t h = source_height_.begin; h < source_height_.end; ++h) load_row(d, h);
  }

  IndexRange width_sources() const {
    IndexRange range{0, 0};
    bool any = false;
    for (const WidthPhase& phase : call_.plan.phases) {
      if (phase.bases.empty()) continue;
      const IndexRange part{phase.bases.front() + width_.begin * call_.plan.source_step,
                            phase.bases.back() + (width_.end - 1) * call_.plan.source_step + 1};
      range = any ? IndexRange{std::min(range.begin, part.begin), std::max(range.end, part.end)} : part;
      any = true;
    }
    return range;
  }

  void load_row(std::int64_t d, std::int64_t h) {
    const GatherPlan& plan = call_.plan;
    const std::int64_t channels = plan.source_channels;
    float* row = source_row(d, h);
    const IndexRange inside{std::clamp<std::int64_t>(0, source_width_.begin, source_width_.end),
                            std::clamp(plan.axes[2].sources, source_width_.begin, source_width_.end)};
    std::fill(row, row + (inside.begin - source_width_.begin) * channels, 0.0f);
    float* after = row + (inside.end - source_width_.begin) * channels;
    std::fill(after, row + row_floats(), 0.0f);
    if (inside.size() <= 0) return;
    const std::int64_t voxel =
        ((n_ * plan.axes[0].sources + d) * plan.axes[1].sources + h) * plan.axes[2].sources + inside.begin;
    call_.kernels.widen({call_.source.dtype,
                         element(call_.source.data, call_.source.dtype, voxel * call_.source.pitch),
                         call_.source.pitch, row + (inside.begin - source_width_.begin) * channels, channels,
                         inside.size(), channels});
  }

  // Outputs of one phase in one row, one block of channels.
  void compute_row(const ChannelBlock& block, std::int64_t d, std::int64_t h, const WidthPhase& phase) {
    const GatherPlan& plan = call_.plan;
    const std::int64_t end = std::min(width_.end, plan.phase_outputs(phase));
    if (end <= width_.begin) return;
    RowJob job;
    job.segments = segments_;
    job.segment_count = collect_segments(block, d, h, phase);
    job.length =
        plan.source_channels * (phase.consecutive ? static_cast<std::int64_t>(phase.taps.size()) : 1);
    job.a_step = plan.source_step * plan.source_channels;
    job.voxels = end - width_.begin;
    job.width = block.width;
    job.init = call_.bias + block.first;
    job.out = out_;
    call_.kernels.row(job);
    const std::int64_t w = phase.first + width_.begin * plan.phase_step;
    const std::int64_t voxel =
        ((n_ * plan.axes[0].outputs + d) * plan.axes[1].outputs + h) * plan.axes[2].outputs + w;
    const MutableVoxelRows& y = call_.output;
    call_.kernels.narrow({y.dtype, out_, block.width, element(y.data, y.dtype, voxel * y.pitch + block.first),
                          y.pitch * plan.phase_step, job.voxels, block.count});
  }

  std::int64_t collect_segments(const ChannelBlock& block, std::int64_t d, std::int64_t h,
                                const WidthPhase& phase) {
    const GatherPlan& plan = call_.plan;
    const std::int64_t channels = plan.source_channels, taps = static_cast<std::int64_t>(phase.taps.size());
    const std::int64_t tap_floats = channels * block.width;
    const std::int64_t planes = plan.axes[0].taps * plan.axes[1].taps;
    const float* weights = call_.weights + block.weights_offset * plan.taps() * channels +
                           phase.taps_before * planes * tap_floats;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < planes && taps > 0; ++i, weights += taps * tap_floats) {
      const std::int64_t sd = plan.axes[0].source(d, i / plan.axes[1].taps);
      const std::int64_t sh = plan.axes[1].source(h, i % plan.axes[1].taps);
      if (sd < 0 || sh < 0) continue;
      const float* row = source_row(sd, sh);
      for (std::int64_t t = 0; t < (phase.consecutive ? 1 : taps); ++t) {
        const std::int64_t at =
            phase.bases[static_cast<std::size_t>(t)] + width_.begin * plan.source_step - source_width_.begin;
        segments_[count++] = {row + at * channels, weights + t * tap_floats};
      }
    }
    return count;
  }

  const GatherCall& call_;
  float* scratch_;
  KernelSegment* segments_ = nullptr;
  float* out_ = nullptr;
  float* rows_ = nullptr;
  std::int64_t n_ = 0;
  IndexRange width_, source_depth_, source_height_, source_width_;
};

IndexRange part_of(std::int64_t size, std::int64_t part, std::int64_t tile) {
  return {part * tile, std::min(size, (part + 1) * tile)};
}

void run_gather(GatherCall& call, std::int64_t batch, const float* bias) {
  const GatherPlan& plan = call.plan;
  call.blocks = channel_blocks(plan.output_channels, call.kernels.lanes);
  call.tile = tile_sizes(plan, batch);
  const std::int64_t widths = plan.phase_outputs(plan.phases.front());
  const std::int64_t d = ceil_divide(plan.axes[0].outputs, call.tile.depth);
  const std::int64_t h = ceil_divide(plan.axes[1].outputs, call.tile.height);
  const std::int64_t w = ceil_divide(widths, call.tile.width);
  const std::int64_t padded = plan.output_channels + 2 * call.kernels.lanes;
  const std::int64_t per_thread = ceil_divide(Tile::scratch_floats(call), 16) * 16;
  const std::int64_t tasks = batch * d * h * w;
  const Scratch scratch(static_cast<std::size_t>(padded + 16 + per_thread * task_threads(tasks)) *
                        sizeof(float));
  float* padded_bias = scratch.as<float>();
  std::fill(padded_bias, padded_bias + padded, 0.0f);
  if (bias != nullptr) std::copy(bias, bias + plan.output_channels, padded_bias);
  call.bias = padded_bias;
  float* buffers = padded_bias + ceil_divide(padded, 16) * 16;
  for_tasks(tasks, [&](std::int64_t task, int thread) {
    const std::int64_t wi = task % w, hi = task / w % h, di = task / w / h % d, n = task / w / h / d;
    Tile(call, buffers + thread * per_thread)
        .run(n, part_of(plan.axes[0].outputs, di, call.tile.depth),
             part_of(plan.axes[1].outputs, hi, call.tile.height), part_of(widths, wi, call.tile.width));
  });
}

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
  GatherCall call{*kernels_, plan, {}, {}, x, y, packed, nullptr};
  run_gather(call, g.batch, bias);
}

void DirectConv::backward_data(const ConvGeometry& g, const VoxelRows& dy, const float* packed,
                               const MutableVoxelRows& dx) const {
  const GatherPlan plan = gather_plan(g, true);
  GatherCall call{*kernels_, plan, {}, {}, dy, dx, packed, nullptr};
  run_gather(call, g.batch, nullptr);
}

}  // namespace tandem

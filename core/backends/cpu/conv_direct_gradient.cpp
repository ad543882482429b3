// The weight gradient of DirectConv: output rows are dealt to a fixed number of parts; a task is one part of
// one depth tap and some blocks of output channels; parts are summed in order at the end.
#include <algorithm>
#include <span>

#include "core/backends/cpu/conv_direct.h"
#include "core/backends/cpu/conv_gather.h"
#include "core/backends/cpu/conv_tasks.h"
#include "core/backends/cpu/gather_tiles.h"
#include "core/backends/cpu/scratch.h"

namespace tandem {
namespace {

constexpr std::int64_t kL1Floats = 6 * 1024;  // rows of x and dy that one visit of the accumulators streams
constexpr std::int64_t kShortPiece = 32;      // voxels; no row is cut shorter to fit
constexpr std::int64_t kWantedTasks = 32;     // of the whole call; enough for the team of a large machine
constexpr std::int64_t kMaxRows = 8;          // of one visit
constexpr std::int64_t kOpsPerPartialByte = 400;  // keeps the final sum below a few percent
constexpr std::int64_t kMaxPartialBytes = 16 << 20;

// How the shape alone cuts the work.
struct GradientPlan {
  std::int64_t width = 1, widths = 1;  // voxels of a piece of a row, pieces in a row
  std::int64_t pieces = 1;             // of the volume, in the order n, depth, piece of the width, height
  std::int64_t parts = 1;
  std::int64_t block_groups = 1;     // of `blocks`, for different tasks
  std::int64_t padded_channels = 0;  // sum of the blocks' widths
  std::int64_t rows = 1;             // of one visit of the accumulators
  bool consecutive = false;          // all width taps are one run of memory
  std::vector<ChannelBlock> blocks;

  std::int64_t part_floats(const ConvGeometry& g) const { return g.taps() * g.in_channels * padded_channels; }
};

GradientPlan gradient_plan(const ConvGeometry& g, int lanes) {
  GradientPlan plan;
  plan.blocks = channel_blocks(g.out_channels, lanes);
  plan.padded_channels = plan.blocks.back().weights_offset + plan.blocks.back().width;
  plan.consecutive = g.dilation[2] == 1;
  const std::int64_t voxel_floats = g.stride[2] * g.in_channels + plan.blocks.front().width;
  plan.widths = ceil_divide(g.out[2], std::max(kShortPiece, kL1Floats / voxel_floats));
  plan.width = ceil_divide(g.out[2], plan.widths);
  plan.pieces = g.batch * g.out[0] * plan.widths * g.out[1];
  plan.rows = std::clamp<std::int64_t>(kL1Floats / (plan.width * voxel_floats), 1, kMaxRows);
  const std::int64_t bytes = plan.part_floats(g) * static_cast<std::int64_t>(sizeof(float));
  const double ops = 2.0 * static_cast<double>(plan.pieces * plan.width) *
                     static_cast<double>(g.taps() * g.in_channels * g.out_channels);
  const auto worth = static_cast<std::int64_t>(ops / static_cast<double>(kOpsPerPartialByte * bytes));
  plan.parts =
      std::min({ceil_divide(kWantedTasks, g.kernel[0]), worth, kMaxPartialBytes / bytes, plan.pieces});
  plan.parts = std::max<std::int64_t>(plan.parts, 1);
  plan.block_groups = std::min(ceil_divide(kWantedTasks, plan.parts * g.kernel[0]),
                               static_cast<std::int64_t>(plan.blocks.size()));
  return plan;
}

struct GradientCall {
  const KernelTable& kernels;
  const ConvGeometry& g;
  const GradientPlan& plan;
  VoxelRows x, dy;
  float* partials;  // [part][block][taps][C][width of the block]
};

class GradientTask {
 public:
  GradientTask(const GradientCall& call, float* scratch) : call_(call), g_(call.g), plan_(call.plan) {
    dy_rows_ = scratch;
    x_rows_ = dy_rows_ + plan_.rows * plan_.width * 2 * call.kernels.lanes;
  }

  static std::int64_t x_row_voxels(const ConvGeometry& g, const GradientPlan& plan) {
    return (plan.width - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1;
  }
  static std::int64_t x_row_count(const ConvGeometry& g, const GradientPlan& plan) {
    return (plan.rows - 1) * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1;
  }
  static std::int64_t scratch_floats(const GradientCall& call) {
    return call.plan.rows * call.plan.width * 2 * call.kernels.lanes +
           x_row_count(call.g, call.plan) * x_row_voxels(call.g, call.plan) * call.g.in_channels;
  }

  void run(std::int64_t part, std::int64_t depth_tap, std::span<const ChannelBlock> blocks) {
    depth_tap_ = depth_tap;
    blocks_ = blocks;
    partial_ = call_.partials + part * plan_.part_floats(g_);
    for (const ChannelBlock& block : blocks) std::fill_n(sums_of(block), plane_floats(block), 0.0f);
    const std::int64_t end = plan_.pieces * (part + 1) / plan_.parts;
    for (std::int64_t piece = plan_.pieces * part / plan_.parts; piece < end;) {
      const std::int64_t height = piece % g_.out[1];
      const std::int64_t count = std::min({plan_.rows, g_.out[1] - height, end - piece});
      visit(piece / g_.out[1], height, count);
      piece += count;
    }
  }

 private:
  // `count` output rows from `height` on, of column `column` = (n, depth, piece of the width).
  void visit(std::int64_t column, std::int64_t height, std::int64_t count) {
    const std::int64_t piece = column % plan_.widths, depth = column / plan_.widths % g_.out[0];
    n_ = column / plan_.widths / g_.out[0];
    source_depth_ = depth * g_.stride[0] - g_.padding[0] + depth_tap_ * g_.dilation[0];
    if (source_depth_ < 0 || source_depth_ >= g_.in[0]) return;
    first_ = piece * plan_.width;
    voxels_ = std::min(plan_.width, g_.out[2] - first_);
    load_x(height, count);
    for (const ChannelBlock& block : blocks_) {
      block_ = block;
      load_dy(depth, height, count);
      for (std::int64_t tap = 0; tap < g_.kernel[1]; ++tap) accumulate(tap, height, count);
    }
  }

  // [height taps, width taps, C, width of the block], of the task's depth tap.
  std::int64_t plane_floats(const ChannelBlock& block) const {
    return g_.kernel[1] * g_.kernel[2] * g_.in_channels * block.width;
  }
  float* sums_of(const ChannelBlock& block) const {
    return partial_ + block.weights_offset * g_.taps() * g_.in_channels + depth_tap_ * plane_floats(block);
  }

  void load_dy(std::int64_t depth, std::int64_t height, std::int64_t count) {
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t voxel = ((n_ * g_.out[0] + depth) * g_.out[1] + height + r) * g_.out[2] + first_;
      call_.kernels.widen({call_.dy.dtype, call_.dy.at(voxel * call_.dy.pitch + block_.first), call_.dy.pitch,
                           dy_row(r), block_.width, voxels_, block_.count});
    }
  }

  // Rows of x that the height taps of the visit read, with zeros where they leave the volume.
  void load_x(std::int64_t height, std::int64_t count) {
    first_x_row_ = height * g_.stride[1] - g_.padding[1];
    const std::int64_t rows = (count - 1) * g_.stride[1] + (g_.kernel[1] - 1) * g_.dilation[1] + 1;
    const std::int64_t begin = first_ * g_.stride[2] - g_.padding[2];
    const std::int64_t voxels = x_row_voxels(g_, plan_), channels = g_.in_channels;
    const std::int64_t inside = std::clamp<std::int64_t>(-begin, 0, voxels);
    const std::int64_t end = std::clamp(g_.in[2] - begin, inside, voxels);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t h = first_x_row_ + r;
      if (h < 0 || h >= g_.in[1]) continue;
      float* row = x_row(r);
      std::fill(row, row + inside * channels, 0.0f);
      std::fill(row + end * channels, row + voxels * channels, 0.0f);
      if (end == inside) continue;
      const std::int64_t voxel = ((n_ * g_.in[0] + source_depth_) * g_.in[1] + h) * g_.in[2] + begin + inside;
      call_.kernels.widen({call_.x.dtype, call_.x.at(voxel * call_.x.pitch), call_.x.pitch,
                           row + inside * channels, channels, end - inside, channels});
    }
  }

  void accumulate(std::int64_t tap, std::int64_t height, std::int64_t count) {
    const float* x[kMaxRows];
    const float* dy[kMaxRows];
    GradientJob job;
    job.x = x;
    job.dy = dy;
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t h = (height + r) * g_.stride[1] - g_.padding[1] + tap * g_.dilation[1];
      if (h < 0 || h >= g_.in[1]) continue;
      x[job.rows] = x_row(h - first_x_row_);
      dy[job.rows++] = dy_row(r);
    }
    if (job.rows == 0) return;
    job.voxels = voxels_;
    job.x_step = g_.stride[2] * g_.in_channels;
    job.width = block_.width;
    job.m_count = plan_.consecutive ? g_.kernel[2] * g_.in_channels : g_.in_channels;
    const std::int64_t runs = plan_.consecutive ? 1 : g_.kernel[2];
    for (std::int64_t run = 0; run < runs; ++run) {
      job.acc = sums_of(block_) + (tap * g_.kernel[2] + run) * g_.in_channels * block_.width;
      call_.kernels.gradient(job);
      for (std::int64_t r = 0; r < job.rows; ++r) x[r] += g_.dilation[2] * g_.in_channels;
    }
  }

  float* dy_row(std::int64_t r) { return dy_rows_ + r * plan_.width * block_.width; }
  float* x_row(std::int64_t r) { return x_rows_ + r * x_row_voxels(g_, plan_) * g_.in_channels; }

  const GradientCall& call_;
  const ConvGeometry& g_;
  const GradientPlan& plan_;
  float *dy_rows_, *x_rows_, *partial_ = nullptr;
  std::span<const ChannelBlock> blocks_;
  ChannelBlock block_;
  std::int64_t depth_tap_ = 0, n_ = 0, source_depth_ = 0, first_ = 0, voxels_ = 0, first_x_row_ = 0;
};

// dw[k, tap, c] += sum over parts, in their order, of partials[part][block][tap][c][k - first].
void add_parts(const GradientCall& call, float* dw, const WeightStrides& strides) {
  const ConvGeometry& g = call.g;
  const std::int64_t rows = g.taps() * g.in_channels;
  parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) {
    float sums[64];
    for (const ChannelBlock& block : call.plan.blocks)
      for (std::int64_t row = begin; row < end; ++row) {
        const float* from = call.partials + block.weights_offset * rows + row * block.width;
        std::copy(from, from + block.count, sums);
        for (std::int64_t part = 1; part < call.plan.parts; ++part) {
          from += call.plan.part_floats(g);
          for (std::int64_t k = 0; k < block.count; ++k) sums[k] += from[k];
        }
        float* to = dw + row / g.in_channels * strides.tap + row % g.in_channels * strides.c +
                    block.first * strides.k;
        for (std::int64_t k = 0; k < block.count; ++k) to[k * strides.k] += sums[k];
      }
  });
}

}  // namespace

void DirectConv::backward_weights(const ConvGeometry& g, const VoxelRows& x, const VoxelRows& dy, float* dw,
                                  const WeightStrides& strides) const {
  const GradientPlan plan = gradient_plan(g, kernels_->lanes);
  GradientCall call{*kernels_, g, plan, x, dy, nullptr};
  const std::int64_t groups = plan.block_groups, tasks = plan.parts * g.kernel[0] * groups;
  const std::int64_t per_thread = ceil_divide(GradientTask::scratch_floats(call), 16) * 16;
  const std::int64_t partials = ceil_divide(plan.parts * plan.part_floats(g), 16) * 16;
  const std::int64_t buffers = per_thread * task_threads(tasks);
  const Scratch scratch(static_cast<std::size_t>(partials + buffers) * sizeof(float));
  call.partials = scratch.as<float>();
  // The padding columns of a dy row are multiplied too (and dropped): no denormal or NaN garbage in them.
  std::fill_n(call.partials + partials, buffers, 0.0f);
  for_tasks(tasks, [&](std::int64_t task, int thread) {
    const std::int64_t group = task % groups, tap = task / groups % g.kernel[0],
                       part = task / groups / g.kernel[0];
    const auto blocks = static_cast<std::int64_t>(plan.blocks.size());
    const std::int64_t first = blocks * group / groups, end = blocks * (group + 1) / groups;
    GradientTask(call, call.partials + partials + thread * per_thread)
        .run(part, tap,
             std::span(plan.blocks)
                 .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first)));
  });
  add_parts(call, dw, strides);
}

}  // namespace tandem

// A gather (conv_gather.h) over tiles of output rows: the source rows of a tile are brought into a padded
// copy in cache in the form that a row kernel wants, then the kernel runs over all taps and source channels
// per block of output channels. What the form is, FP32 or parts in BF16, is the template's parameter:
//
//   Element, Segment, Job   of the row kernel;  kPlanes: copies of a source row, one after the other
//   lanes()                 output channels of half a block
//   load(job, plane)        rows of CopyJob into every plane, `plane` elements apart
//   multiply(job, plane)    the row kernel
//   narrow(job)             FP32 results to their dtype
#pragma once

#include <algorithm>
#include <vector>

#include "core/backends/cpu/conv_direct.h"
#include "core/backends/cpu/conv_tasks.h"
#include "core/backends/cpu/gather_tiles.h"
#include "core/backends/cpu/scratch.h"

namespace tandem {

template <class Form>
struct GatherCall {
  const Form& form;
  const GatherPlan& plan;
  std::vector<ChannelBlock> blocks;
  TileSizes tile;
  VoxelRows source;
  MutableVoxelRows output;
  const typename Form::Element* weights;
  const float* bias = nullptr;  // padded to the blocks' widths
};

// One task: the outputs of a tile, on one thread.
template <class Form>
class GatherTask {
 public:
  using Element = typename Form::Element;
  using Segment = typename Form::Segment;

  GatherTask(const GatherCall<Form>& call, float* scratch) : call_(call), plan_(call.plan), form_(call.form) {
    segments_ = reinterpret_cast<Segment*>(scratch);
    out_ = scratch + segment_floats(plan_);
    rows_ = reinterpret_cast<Element*>(out_ + out_floats(call));
  }

  // Floats of scratch that any tile of the call needs: segments, an output row, source rows.
  static std::int64_t scratch_floats(const GatherCall<Form>& call) {
    const GatherPlan& plan = call.plan;
    const std::int64_t rows =
        source_reach(plan.axes[0], call.tile.depth) * source_reach(plan.axes[1], call.tile.height);
    const std::int64_t elements =
        rows * source_row_voxels(plan, call.tile.width) * plan.source_channels * Form::kPlanes;
    return segment_floats(plan) + out_floats(call) +
           ceil_divide(elements * static_cast<std::int64_t>(sizeof(Element)),
                       static_cast<std::int64_t>(sizeof(float)));
  }

  void run(std::int64_t n, const IndexRange& depth, const IndexRange& height, const IndexRange& width) {
    n_ = n;
    width_ = width;
    load_sources(depth, height);
    for (const ChannelBlock& block : call_.blocks)
      for (std::int64_t d = depth.begin; d < depth.end; ++d)
        for (std::int64_t h = height.begin; h < height.end; ++h)
          for (const WidthPhase& phase : plan_.phases) compute_row(block, d, h, phase);
  }

 private:
  static std::int64_t segment_floats(const GatherPlan& plan) {
    return ceil_divide(plan.taps() * static_cast<std::int64_t>(sizeof(Segment)), 64) * 16;
  }
  static std::int64_t out_floats(const GatherCall<Form>& call) {
    return ceil_divide(call.tile.width * 2 * call.form.lanes(), 16) * 16;
  }

  std::int64_t plane() const { return source_width_.size() * plan_.source_channels; }
  Element* source_row(std::int64_t d, std::int64_t h) {
    const std::int64_t row = (d - source_depth_.begin) * source_height_.size() + h - source_height_.begin;
    return rows_ + row * plane() * Form::kPlanes;
  }

  // Copies the rows that the tile reads, with zeros where they leave the volume.
  void load_sources(const IndexRange& depth, const IndexRange& height) {
    source_depth_ = plan_.axes[0].sources_of(depth);
    source_height_ = plan_.axes[1].sources_of(height);
    source_width_ = width_sources(plan_, width_);
    for (std::int64_t d = source_depth_.begin; d < source_depth_.end; ++d)
      for (std::int64_t h = source_height_.begin; h < source_height_.end; ++h) load_row(d, h);
  }

  void load_row(std::int64_t d, std::int64_t h) {
    const std::int64_t channels = plan_.source_channels;
    const IndexRange inside{std::clamp<std::int64_t>(0, source_width_.begin, source_width_.end),
                            std::clamp(plan_.axes[2].sources, source_width_.begin, source_width_.end)};
    const std::int64_t before = (inside.begin - source_width_.begin) * channels,
                       after = (inside.end - source_width_.begin) * channels;
    Element* row = source_row(d, h);
    for (std::int64_t p = 0; p < Form::kPlanes; ++p) {
      std::fill(row + p * plane(), row + p * plane() + before, Element{});
      std::fill(row + p * plane() + after, row + (p + 1) * plane(), Element{});
    }
    if (inside.size() <= 0) return;
    const std::int64_t voxel =
        ((n_ * plan_.axes[0].sources + d) * plan_.axes[1].sources + h) * plan_.axes[2].sources + inside.begin;
    const VoxelRows& from = call_.source;
    form_.load({from.dtype, from.at(voxel * from.pitch), from.pitch, row + before, channels, inside.size(),
                channels},
               plane());
  }

  // Outputs of one phase in one row, one block of channels.
  void compute_row(const ChannelBlock& block, std::int64_t d, std::int64_t h, const WidthPhase& phase) {
    const std::int64_t end = std::min(width_.end, plan_.phase_outputs(phase));
    if (end <= width_.begin) return;
    typename Form::Job job;
    job.segments = segments_;
    job.segment_count = collect_segments(block, d, h, phase);
    job.length =
        plan_.source_channels * (phase.consecutive ? static_cast<std::int64_t>(phase.taps.size()) : 1);
    job.a_step = plan_.source_step * plan_.source_channels;
    job.voxels = end - width_.begin;
    job.width = block.width;
    job.init = call_.bias + block.first;
    job.out = out_;
    form_.multiply(job, plane());
    const std::int64_t w = phase.first + width_.begin * plan_.phase_step;
    const std::int64_t voxel =
        ((n_ * plan_.axes[0].outputs + d) * plan_.axes[1].outputs + h) * plan_.axes[2].outputs + w;
    const MutableVoxelRows& y = call_.output;
    form_.narrow({y.dtype, out_, block.width, y.at(voxel * y.pitch + block.first), y.pitch * plan_.phase_step,
                  job.voxels, block.count});
  }

  std::int64_t collect_segments(const ChannelBlock& block, std::int64_t d, std::int64_t h,
                                const WidthPhase& phase) {
    const std::int64_t channels = plan_.source_channels, taps = static_cast<std::int64_t>(phase.taps.size());
    const std::int64_t tap_elements = channels * block.width * Form::kPlanes;
    const std::int64_t planes = plan_.axes[0].taps * plan_.axes[1].taps;
    const Element* weights = call_.weights + block.weights_offset * plan_.taps() * channels * Form::kPlanes +
                             phase.taps_before * planes * tap_elements;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < planes && taps > 0; ++i, weights += taps * tap_elements) {
      const std::int64_t sd = plan_.axes[0].source(d, i / plan_.axes[1].taps);
      const std::int64_t sh = plan_.axes[1].source(h, i % plan_.axes[1].taps);
      if (sd < 0 || sh < 0) continue;
      const Element* row = source_row(sd, sh);
      for (std::int64_t t = 0; t < (phase.consecutive ? 1 : taps); ++t) {
        const std::int64_t at =
            phase.bases[static_cast<std::size_t>(t)] + width_.begin * plan_.source_step - source_width_.begin;
        segments_[count++] = {row + at * channels, weights + t * tap_elements};
      }
    }
    return count;
  }

  const GatherCall<Form>& call_;
  const GatherPlan& plan_;
  Form form_;  // of the task: it may note what it loads
  Segment* segments_ = nullptr;
  float* out_ = nullptr;
  Element* rows_ = nullptr;
  std::int64_t n_ = 0;
  IndexRange width_, source_depth_, source_height_, source_width_;
};

inline IndexRange part_of(std::int64_t size, std::int64_t part, std::int64_t tile) {
  return {part * tile, std::min(size, (part + 1) * tile)};
}

// The outputs of `batch` samples. bias: nullptr: none.
template <class Form>
void run_gather(GatherCall<Form>& call, std::int64_t batch, const float* bias) {
  const GatherPlan& plan = call.plan;
  const int lanes = call.form.lanes();
  call.blocks = channel_blocks(plan.output_channels, lanes);
  call.tile = tile_sizes(plan, batch);
  const std::int64_t widths = plan.phase_outputs(plan.phases.front());
  const std::int64_t d = ceil_divide(plan.axes[0].outputs, call.tile.depth);
  const std::int64_t h = ceil_divide(plan.axes[1].outputs, call.tile.height);
  const std::int64_t w = ceil_divide(widths, call.tile.width);
  const std::int64_t padded = ceil_divide(plan.output_channels + 2 * lanes, 16) * 16;
  const std::int64_t per_thread = ceil_divide(GatherTask<Form>::scratch_floats(call), 16) * 16;
  const std::int64_t tasks = batch * d * h * w;
  const Scratch scratch(static_cast<std::size_t>(padded + per_thread * task_threads(tasks)) * sizeof(float));
  float* padded_bias = scratch.as<float>();
  std::fill(padded_bias, padded_bias + padded, 0.0f);
  if (bias != nullptr) std::copy(bias, bias + plan.output_channels, padded_bias);
  call.bias = padded_bias;
  for_tasks(tasks, [&](std::int64_t task, int thread) {
    const std::int64_t wi = task % w, hi = task / w % h, di = task / w / h % d, n = task / w / h / d;
    GatherTask<Form>(call, padded_bias + padded + thread * per_thread)
        .run(n, part_of(plan.axes[0].outputs, di, call.tile.depth),
             part_of(plan.axes[1].outputs, hi, call.tile.height), part_of(widths, wi, call.tile.width));
  });
}

}  // namespace tandem

// Each line of the source from at most four lines of the network's grid: along z, then y, then x.
#include "data/source_lines.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/parallel.h"

namespace tandem {
namespace {

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

// The nearest alone, or both neighbours in double, rounded once.
void blend(const LinearPair& pair, std::span<const float> low, std::span<const float> high,
           std::span<float> result) {
  for (std::size_t i = 0; i < result.size(); ++i)  // from +0, so that two -0 make +0 as every sum does
    result[i] = static_cast<float>(0.0 + pair.weight[0] * low[i] + pair.weight[1] * high[i]);
}

bool blends_along(const GridPlacement& placement, std::size_t axis) {
  const ResamplePlan& plan = placement.plan;
  return plan.from[axis] != plan.to[axis] && plan.separate != static_cast<int>(axis);
}

}  // namespace

// Lines of one thread.
struct SourceLines::Room {
  std::vector<float> low, high, between;
};

SourceLines::SourceLines(const GridPlacement& placement, std::span<const float> outside, LineSink take)
    : placement_(placement), channels_(std::ssize(outside)), take_(std::move(take)) {
  const auto& [from, to, separate] = placement.plan;
  for (std::int64_t x = 0; x < placement.source[2]; ++x)
    outside_.insert(outside_.end(), outside.begin(), outside.end());
  for (std::size_t a = 0; a < 3; ++a) {
    blends_[a] = blends_along(placement, a);
    pairs_[a] = linear_pairs(to[a], from[a], separate == static_cast<int>(a));
  }
  slices_ = Tensor({held_slices(placement), to[1] * to[2] * channels_}, DType::kF32, kCpuDevice,
                   MemoryCategory::kWorkspace);
}

std::int64_t SourceLines::held_slices(const GridPlacement& placement) {
  return blends_along(placement, 0) && placement.plan.to[0] > 1 ? 2 : 1;
}

std::int64_t SourceLines::bytes(const GridPlacement& placement, std::int64_t channels) {
  const Index3& to = placement.plan.to;
  return held_slices(placement) * to[1] * to[2] * channels * static_cast<std::int64_t>(sizeof(float));
}

float* SourceLines::held_line(std::int64_t z, std::int64_t y) const {
  const Index3& to = placement_.plan.to;
  return slices_.data<float>() + (z % slices_.shape()[0] * to[1] + y) * to[2] * channels_;
}

void SourceLines::add(std::int64_t z, std::int64_t y, std::span<const float> logits) {
  std::copy(logits.begin(), logits.end(), held_line(z, y));
}

void SourceLines::finish_slice(std::int64_t z) {
  const std::int64_t begin = placement_.begin[0], size = placement_.plan.from[0];
  if (z == 0)
    for (std::int64_t i = 0; i < placement_.source[0]; ++i)
      if (i < begin || i >= begin + size) hand_out(i);
  for (; next_ < size; ++next_) {
    const LinearPair& pair = pairs_[0][as_size(next_)];
    if (pair.index[blends_[0] ? 1 : 0] > z) return;
    hand_out(begin + next_);
  }
}

void SourceLines::hand_out(std::int64_t z) {
  const Index3 &begin = placement_.begin, &size = placement_.plan.from;
  const std::int64_t inner_z = z - begin[0];
  parallel_for(placement_.source[1], 1, [&](std::int64_t first, std::int64_t end) {
    Room room;
    std::vector<float> line;
    for (std::int64_t y = first; y < end; ++y) {
      const std::int64_t inner_y = y - begin[1];
      line = outside_;
      if (inner_z >= 0 && inner_z < size[0] && inner_y >= 0 && inner_y < size[1])
        fill(inner_z, inner_y,
             std::span(line).subspan(as_size(begin[2] * channels_), as_size(size[2] * channels_)), room);
      take_(z, y, line);
    }
  });
}

// Line y of the network's grid between the slices that slice z of the box lies between.
std::span<const float> SourceLines::between_slices(std::int64_t z, std::int64_t y,
                                                   std::vector<float>& room) const {
  const LinearPair& pair = pairs_[0][as_size(z)];
  const std::size_t size = as_size(placement_.plan.to[2] * channels_);
  const std::span<const float> low(held_line(pair.index[0], y), size);
  if (!blends_[0]) return low;
  room.resize(size);
  blend(pair, low, {held_line(pair.index[1], y), size}, room);
  return room;
}

void SourceLines::fill(std::int64_t z, std::int64_t y, std::span<float> line, Room& room) const {
  const LinearPair& rows = pairs_[1][as_size(y)];
  std::span<const float> values = between_slices(z, rows.index[0], room.low);
  if (blends_[1]) {
    room.between.resize(values.size());
    blend(rows, values, between_slices(z, rows.index[1], room.high), room.between);
    values = room.between;
  }
  for (std::size_t x = 0; x < pairs_[2].size(); ++x) {
    const LinearPair& pair = pairs_[2][x];
    const auto voxel = [&](std::int64_t i) {
      return values.subspan(as_size(i * channels_), as_size(channels_));
    };
    const std::span<float> target = line.subspan(x * as_size(channels_), as_size(channels_));
    if (blends_[2])
      blend(pair, voxel(pair.index[0]), voxel(pair.index[1]), target);
    else
      std::ranges::copy(voxel(pair.index[0]), target.begin());
  }
}

}  // namespace tandem

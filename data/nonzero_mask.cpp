// Bounding box, mask, and the flood from outside that leaves the holes.
#include "data/nonzero_mask.h"

#include <algorithm>

#include "data/normalize.h"

namespace tandem {
namespace {

constexpr std::uint8_t kZero = 0, kInside = 1, kOutside = 2;

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

// One sweep over the volume, forwards or backwards: voxels that are 0 become outside at a face of the box or
// beside an outside voxel. True if any did. Needs no memory, unlike a queue; a few sweeps do for a head or a
// body.
bool spread_outside(std::vector<std::uint8_t>& mask, const Index3& size, bool backwards) {
  const std::int64_t strides[] = {size[1] * size[2], size[2], 1}, count = voxel_count(size);
  bool changed = false;
  for (std::int64_t step = 0; step < count; ++step) {
    const std::int64_t i = backwards ? count - 1 - step : step;
    if (mask[as_size(i)] != kZero) continue;
    const Index3 at{i / strides[0], i / strides[1] % size[1], i % size[2]};
    bool outside = false;
    for (std::size_t a = 0; a < 3 && !outside; ++a)
      outside = at[a] == 0 || at[a] == size[a] - 1 || mask[as_size(i - strides[a])] == kOutside ||
                mask[as_size(i + strides[a])] == kOutside;
    if (outside) mask[as_size(i)] = kOutside, changed = true;
  }
  return changed;
}

}  // namespace

std::optional<VoxelBox> nonzero_box(const VoxelSource& source) {
  const CaseInfo& info = source.info();
  const Index3 whole = info.geometry.shape();
  const std::int64_t slice = whole[1] * whole[2];
  Index3 low = whole, high{-1, -1, -1};
  std::vector<float> planes(as_size(info.channels * slice));
  for (std::int64_t z = 0; z < whole[0]; ++z) {
    source.read_image({z, 0, 0}, {1, whole[1], whole[2]}, planes);
    for (std::int64_t c = 0; c < info.channels; ++c)
      ChannelStatistics({.channel = c, .kind = NormalizeKind::kNone})
          .add_slice(std::span(planes).subspan(as_size(c * slice), as_size(slice)), z, whole[2], info.file);
    for (std::size_t i = 0; i < planes.size(); ++i) {
      if (planes[i] == 0) continue;
      const auto in_plane = static_cast<std::int64_t>(i) % slice;
      const Index3 at{z, in_plane / whole[2], in_plane % whole[2]};
      for (std::size_t a = 0; a < 3; ++a)
        low[a] = std::min(low[a], at[a]), high[a] = std::max(high[a], at[a]);
    }
  }
  if (high[0] < 0) return std::nullopt;
  return VoxelBox{low, {high[0] - low[0] + 1, high[1] - low[1] + 1, high[2] - low[2] + 1}};
}

std::vector<std::uint8_t> nonzero_mask(std::span<const float> planes, const Index3& size) {
  const std::size_t voxels = as_size(voxel_count(size));
  std::vector<std::uint8_t> mask(voxels, kZero);
  for (std::size_t i = 0; i < planes.size(); ++i)
    if (planes[i] != 0) mask[i % voxels] = kInside;
  while (spread_outside(mask, size, false) && spread_outside(mask, size, true)) {
  }
  for (std::uint8_t& voxel : mask) voxel = voxel == kOutside ? 0 : 1;
  return mask;
}

}  // namespace tandem

// Draws of patch positions.
#include "data/patch_sampler.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tandem {

bool is_forced_foreground(std::int64_t slot, std::int64_t batch_size, double foreground,
                          RandomStream& stream) {
  const double batch = static_cast<double>(batch_size);
  const double unforced = std::nearbyint(batch * (1 - foreground));
  if (unforced == 0 || unforced == batch) return stream.uniform() < foreground;
  return static_cast<double>(slot) >= unforced;
}

Index3 clamped_origin(const Index3& centre, const Index3& size, const Index3& shape) {
  Index3 origin;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t room = shape[a] - size[a];
    origin[a] = room < 0 ? -((-room) / 2) : std::clamp<std::int64_t>(centre[a] - size[a] / 2, 0, room);
  }
  return origin;
}

namespace {

// Any voxel that is not ignored, all alike; nothing if there is none.
std::optional<Index3> draw_annotated(const PreparedCase& source, RandomStream& stream) {
  std::int64_t total = 0, cls = 0;
  for (std::int64_t c = 0; c < source.classes(); ++c) total += source.foreground().count(c);
  if (total == 0) return std::nullopt;
  std::int64_t k = stream.below(total);
  for (; k >= source.foreground().count(cls); ++cls) k -= source.foreground().count(cls);
  return source.voxel_of_class(cls, k);
}

}  // namespace

Index3 draw_origin(const PreparedCase& source, const PatchOptions& options, bool forced,
                   RandomStream& stream) {
  const Index3& shape = source.shape();
  const std::vector<std::int64_t> present = source.foreground().present_foreground();
  if (!forced || present.empty()) {
    if (source.ignores())
      if (const auto annotated = draw_annotated(source, stream))
        return clamped_origin(*annotated, options.size, shape);
    Index3 origin = clamped_origin({0, 0, 0}, options.size, shape);
    for (std::size_t a = 0; a < 3; ++a)
      if (shape[a] > options.size[a]) origin[a] = stream.below(shape[a] - options.size[a] + 1);
    return origin;
  }
  std::int64_t cls = 0, k = 0;
  if (options.class_first) {
    cls = present[static_cast<std::size_t>(stream.below(static_cast<std::int64_t>(present.size())))];
    k = stream.below(source.foreground().count(cls));
  } else {
    std::int64_t total = 0;
    for (const std::int64_t c : present) total += source.foreground().count(c);
    k = stream.below(total);
    for (const std::int64_t c : present) {
      cls = c;
      if (k < source.foreground().count(c)) break;
      k -= source.foreground().count(c);
    }
  }
  return clamped_origin(source.voxel_of_class(cls, k), options.size, shape);
}

}  // namespace tandem

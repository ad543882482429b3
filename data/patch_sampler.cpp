// Draws of patch positions.
#include "data/patch_sampler.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

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

// One of `classes`, each with the probability of its weight; without weights all alike.
std::int64_t draw_class(const std::vector<std::int64_t>& classes, std::span<const double> weights,
                        RandomStream& stream) {
  if (weights.empty())
    return classes[static_cast<std::size_t>(stream.below(static_cast<std::int64_t>(classes.size())))];
  double total = 0;
  for (const std::int64_t c : classes) total += weights[static_cast<std::size_t>(c)];
  double left = stream.uniform() * total;
  for (const std::int64_t c : classes) {
    left -= weights[static_cast<std::size_t>(c)];
    if (left < 0) return c;
  }
  return classes.back();  // rounding
}

}  // namespace

std::optional<std::string> class_weights_fault(const PatchOptions& options,
                                               std::span<const std::string> classes) {
  const std::span<const std::string> foreground = classes.subspan(1);
  for (const auto& [name, weight] : options.class_weights)
    if (std::ranges::find(foreground, name) == foreground.end())
      return fmt::format("got '{}', expected foreground classes of data.labels: {}", name,
                         fmt::join(foreground, ", "));
  return std::nullopt;
}

std::vector<double> patch_class_weights(const PatchOptions& options, const LabelMap& labels) {
  if (options.class_weights.empty()) return {};
  if (const auto fault = class_weights_fault(options, labels.names()))
    fail(ErrorKind::kConfig, "[patch] class_weights: {}", *fault);
  std::vector<double> weights(static_cast<std::size_t>(labels.classes()), 1.0);
  for (const auto& [name, weight] : options.class_weights)
    weights[static_cast<std::size_t>(std::ranges::find(labels.names(), name) - labels.names().begin())] =
        weight;
  return weights;
}

Index3 draw_origin(const PreparedCase& source, const PatchOptions& options, bool forced, RandomStream& stream,
                   std::span<const double> weights) {
  const Index3& shape = source.shape();
  std::vector<std::int64_t> present = source.foreground().present_foreground();
  if (!weights.empty())
    std::erase_if(present, [&](std::int64_t c) { return weights[static_cast<std::size_t>(c)] == 0; });
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
    cls = draw_class(present, weights, stream);
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

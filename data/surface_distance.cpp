// Surfaces, and sorted lists of distances.
#include "data/surface_distance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/base/parallel.h"
#include "data/distance_transform.h"

namespace tandem {
namespace {

constexpr double kToleranceRounding = 1e-6;

// Distances from the voxels of `from` to the nearest voxel of `to`.
std::vector<double> directed_distances(std::span<const std::uint8_t> from, std::span<const std::uint8_t> to,
                                       const Index3& shape, const std::array<double, 3>& spacing_mm) {
  const std::vector<double> squared = squared_distances_mm2(to, shape, spacing_mm);
  std::vector<double> distances;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i] != 0) distances.push_back(std::sqrt(squared[i]));
  std::sort(distances.begin(), distances.end());
  return distances;
}

std::int64_t count_within(std::span<const double> ascending, double limit) {
  return std::upper_bound(ascending.begin(), ascending.end(), limit) - ascending.begin();
}

}  // namespace

std::vector<std::uint8_t> surface_voxels(std::span<const std::uint8_t> mask, const Index3& shape) {
  check_internal(mask.size() == static_cast<std::size_t>(voxel_count(shape)),
                 "surface_voxels: a mask of another size");
  const Index3 pitch{shape[1] * shape[2], shape[2], 1};
  std::vector<std::uint8_t> surface(mask.size(), 0);
  parallel_for(shape[0], 1, [&](std::int64_t z_begin, std::int64_t z_end) {
    for (Index3 at{z_begin, 0, 0}; at[0] < z_end; ++at[0])
      for (at[1] = 0; at[1] < shape[1]; ++at[1])
        for (at[2] = 0; at[2] < shape[2]; ++at[2]) {
          const std::int64_t i = (at[0] * shape[1] + at[1]) * shape[2] + at[2];
          if (mask[static_cast<std::size_t>(i)] == 0) continue;
          bool inside = true;
          for (std::size_t a = 0; a < 3 && inside; ++a)
            inside = at[a] > 0 && at[a] + 1 < shape[a] && mask[static_cast<std::size_t>(i - pitch[a])] != 0 &&
                     mask[static_cast<std::size_t>(i + pitch[a])] != 0;
          surface[static_cast<std::size_t>(i)] = inside ? 0 : 1;
        }
  });
  return surface;
}

SurfaceDistances surface_distances(std::span<const std::uint8_t> prediction,
                                   std::span<const std::uint8_t> reference, const Index3& shape,
                                   const std::array<double, 3>& spacing_mm) {
  const std::vector<std::uint8_t> predicted = surface_voxels(prediction, shape);
  const std::vector<std::uint8_t> expected = surface_voxels(reference, shape);
  SurfaceDistances result{directed_distances(predicted, expected, shape, spacing_mm),
                          directed_distances(expected, predicted, shape, spacing_mm)};
  check_internal(!result.to_reference.empty() && !result.to_prediction.empty(),
                 "surface_distances: an empty mask");
  return result;
}

double percentile_of(std::span<const double> ascending, double percent) {
  check_internal(!ascending.empty() && percent >= 0 && percent <= 100,
                 "percentile_of: nothing, or no percent");
  const double place = percent / 100 * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  return std::lerp(ascending[below], ascending[above], place - static_cast<double>(below));
}

double SurfaceDistances::hausdorff_mm() const { return std::max(to_reference.back(), to_prediction.back()); }

double SurfaceDistances::hausdorff_percentile_mm(double percent) const {
  return std::max(percentile_of(to_reference, percent), percentile_of(to_prediction, percent));
}

double SurfaceDistances::pooled_percentile_mm(double percent) const {
  std::vector<double> all(to_reference.size() + to_prediction.size());
  std::merge(to_reference.begin(), to_reference.end(), to_prediction.begin(), to_prediction.end(),
             all.begin());
  return percentile_of(all, percent);
}

double SurfaceDistances::average_mm() const {
  const double sum = std::accumulate(to_reference.begin(), to_reference.end(), 0.0) +
                     std::accumulate(to_prediction.begin(), to_prediction.end(), 0.0);
  return sum / static_cast<double>(to_reference.size() + to_prediction.size());
}

double SurfaceDistances::surface_dice(double tolerance_mm) const {
  const double limit = tolerance_mm * (1 + kToleranceRounding);
  return static_cast<double>(count_within(to_reference, limit) + count_within(to_prediction, limit)) /
         static_cast<double>(to_reference.size() + to_prediction.size());
}

}  // namespace tandem

// Places on a grid, and the filter by foreground.
#include "data/patch_grid.h"

#include <algorithm>

#include "core/base/rng.h"

namespace tandem {
namespace {

constexpr std::uint64_t kSlackSeed =
    47;  // pytorch-3dunet's; not the job's, as the patches are part of the data

// Part of the voxels of the patch at `origin` that are of a class above 0.
double foreground_part(const PreparedCase& source, const Index3& origin, const Index3& size,
                       std::vector<std::int32_t>& labels) {
  source.read_box(origin, size, {}, labels);
  const auto count =
      std::count_if(labels.begin(), labels.end(), [](std::int32_t label) { return label > 0; });
  return static_cast<double>(count) / static_cast<double>(labels.size());
}

}  // namespace

std::vector<std::int64_t> grid_starts(std::int64_t size, std::int64_t patch, std::int64_t stride) {
  if (size < patch) return {-((patch - size) / 2)};
  std::vector<std::int64_t> starts;
  for (std::int64_t start = 0; start + patch <= size; start += stride) starts.push_back(start);
  if (starts.back() + patch < size) starts.push_back(size - patch);
  return starts;
}

std::vector<Index3> grid_patches(const PreparedCase& source, const PatchOptions& options,
                                 std::int64_t case_number) {
  const Index3 stride = options.stride.value_or(options.size);
  std::vector<std::int64_t> starts[3];
  for (std::size_t a = 0; a < 3; ++a) starts[a] = grid_starts(source.shape()[a], options.size[a], stride[a]);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(voxel_count(options.size)));
  std::vector<Index3> patches;
  std::uint64_t number = 0;
  for (const std::int64_t z : starts[0])
    for (const std::int64_t y : starts[1])
      for (const std::int64_t x : starts[2]) {
        RandomStream chance(kSlackSeed, RandomPurpose::kGridSlack, static_cast<std::uint64_t>(case_number),
                            number++);
        const Index3 origin{z, y, x};
        if (!options.min_foreground ||
            foreground_part(source, origin, options.size, labels) > *options.min_foreground ||
            chance.uniform() < options.slack)
          patches.push_back(origin);
      }
  return patches;
}

}  // namespace tandem

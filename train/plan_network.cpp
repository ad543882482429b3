// The planner's arithmetic. Rounding is to even, as numpy's and Python's.
#include "train/plan_network.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

constexpr double kMinEdge = 4;     // of the coarsest feature maps
constexpr double kAnisotropy = 3;  // spacing and voxels of a coarse axis against the others
constexpr double kReferenceValues = 560e6, kReferenceGb = 8, kReferenceBatch = 2;
constexpr double kLargestPart = 0.05;  // of the data set in one batch
constexpr std::int64_t kBaseFeatures = 32, kMaxFeatures = 320;
constexpr double kStartEdge = 256;

std::vector<std::size_t> axes_to_halve(const std::array<double, 3>& size, const Spacing& spacing) {
  double smallest = 0;
  for (std::size_t a = 0; a < 3; ++a)
    if (size[a] >= 2 * kMinEdge && (smallest == 0 || spacing[a] < smallest)) smallest = spacing[a];
  std::vector<std::size_t> axes;
  for (std::size_t a = 0; a < 3; ++a)
    if (size[a] >= 2 * kMinEdge && spacing[a] / smallest < 2) axes.push_back(a);
  if (axes.size() == 1 && size[axes.front()] < 3 * kMinEdge) axes.clear();
  return axes;
}

// Linear between neighbours, in double (data/normalize has it for float).
double percentile_of(std::vector<double> values, double percent) {
  std::sort(values.begin(), values.end());
  const double at = percent / 100 * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const double next = values[std::min(low + 1, values.size() - 1)];
  return values[low] + (at - static_cast<double>(low)) * (next - values[low]);
}

double product(const std::array<double, 3>& v) { return v[0] * v[1] * v[2]; }

MedianShape as_double(const Index3& shape) {
  return {static_cast<double>(shape[0]), static_cast<double>(shape[1]), static_cast<double>(shape[2])};
}

}  // namespace

Index3 NetworkTopology::multiple() const {
  Index3 product{1, 1, 1};
  for (const auto& stride : strides)
    for (std::size_t a = 0; a < 3; ++a) product[a] *= stride[a];
  return product;
}

NetworkTopology plan_topology(const Spacing& spacing_mm, const MedianShape& size) {
  NetworkTopology topology;
  topology.strides.push_back({1, 1, 1});
  Spacing spacing = spacing_mm;
  std::array<double, 3> left = size;
  std::array<std::int64_t, 3> kernel{1, 1, 1};
  for (auto axes = axes_to_halve(left, spacing); !axes.empty(); axes = axes_to_halve(left, spacing)) {
    const double smallest = *std::min_element(spacing.begin(), spacing.end());
    for (std::size_t a = 0; a < 3; ++a)
      if (spacing[a] / smallest < 2) kernel[a] = 3;
    std::array<std::int64_t, 3> stride{1, 1, 1};
    for (const std::size_t a : axes) {
      stride[a] = 2;
      spacing[a] *= 2;
      left[a] = std::ceil(left[a] / 2);
    }
    topology.strides.push_back(stride);
    topology.kernels.push_back(kernel);
  }
  topology.kernels.push_back({3, 3, 3});
  const Index3 multiple = topology.multiple();
  for (std::size_t a = 0; a < 3; ++a)
    topology.patch[a] =
        static_cast<std::int64_t>(std::ceil(size[a] / static_cast<double>(multiple[a]))) * multiple[a];
  return topology;
}

std::vector<std::int64_t> planned_features(std::size_t stages) {
  std::vector<std::int64_t> features;
  std::int64_t next = kBaseFeatures;
  for (std::size_t s = 0; s < stages; ++s, next = std::min(2 * next, kMaxFeatures)) features.push_back(next);
  return features;
}

double conv_output_values(const NetworkTopology& topology, std::int64_t outputs) {
  const std::vector<std::int64_t> features = planned_features(topology.strides.size());
  Index3 size = topology.patch;
  double values = 0;
  for (std::size_t s = 0; s < features.size(); ++s) {
    for (std::size_t a = 0; a < 3; ++a) size[a] /= topology.strides[s][a];
    const auto voxels = static_cast<double>(voxel_count(size)), channels = static_cast<double>(features[s]);
    values += 2 * channels * voxels;
    if (s + 1 < features.size()) values += (3 * channels + static_cast<double>(outputs)) * voxels;
  }
  return values;
}

NetworkPlan plan_network(const PlanRequest& request) {
  const Spacing& spacing = request.spacing_mm;
  std::array<double, 3> initial;
  const double scale = kStartEdge * std::cbrt(product(spacing));
  for (std::size_t a = 0; a < 3; ++a)
    initial[a] = std::min(std::nearbyint(scale / spacing[a]), request.shape[a]);
  const double budget = kReferenceValues * request.memory_gb / kReferenceGb;
  NetworkPlan plan{.topology = plan_topology(spacing, initial)};
  NetworkTopology& topology = plan.topology;
  while (conv_output_values(topology, request.outputs) > budget) {
    std::size_t axis = 0;
    const auto part = [&](std::size_t a) {
      return static_cast<double>(topology.patch[a]) / request.shape[a];
    };
    for (std::size_t a = 1; a < 3; ++a)
      if (part(a) >= part(axis)) axis = a;
    // One step less may be divisible by less: 256 of 64 goes to 224 of 32, not to 192.
    MedianShape size = as_double(topology.patch);
    size[axis] -= static_cast<double>(topology.multiple()[axis]);
    const Index3 multiple = plan_topology(spacing, size).multiple();
    size = as_double(topology.patch);
    size[axis] -= static_cast<double>(multiple[axis]);
    if (size[axis] < 1) break;  // a budget below the smallest network
    topology = plan_topology(spacing, size);
  }
  const double patch_voxels = static_cast<double>(voxel_count(topology.patch));
  const double fitting =
      std::nearbyint(budget / conv_output_values(topology, request.outputs) * kReferenceBatch);
  const double most = std::nearbyint(product(request.shape) * static_cast<double>(request.cases) *
                                     kLargestPart / patch_voxels);
  plan.batch = static_cast<std::int64_t>(std::max(std::min(fitting, most), 2.0));
  return plan;
}

MedianShape median_shape(const std::vector<Index3>& shapes) {
  MedianShape median;
  for (std::size_t a = 0; a < 3; ++a) {
    std::vector<double> sizes;
    for (const Index3& shape : shapes) sizes.push_back(static_cast<double>(shape[a]));
    median[a] = percentile_of(std::move(sizes), 50);
  }
  return median;
}

Spacing planned_spacing(const std::vector<Spacing>& spacings_mm, const std::vector<Index3>& shapes) {
  const auto along = [&](std::size_t a, double percent) {
    std::vector<double> values;
    for (const Spacing& spacing : spacings_mm) values.push_back(spacing[a]);
    return percentile_of(std::move(values), percent);
  };
  Spacing target{along(0, 50), along(1, 50), along(2, 50)};
  const MedianShape size = median_shape(shapes);
  const auto worst =
      static_cast<std::size_t>(std::max_element(target.begin(), target.end()) - target.begin());
  double largest_other = 0, fewest_other = size[(worst + 1) % 3];
  for (std::size_t a = 0; a < 3; ++a) {
    if (a == worst) continue;
    largest_other = std::max(largest_other, target[a]);
    fewest_other = std::min(fewest_other, size[a]);
  }
  if (target[worst] > kAnisotropy * largest_other && size[worst] * kAnisotropy < fewest_other) {
    constexpr double kAboveOthers = 1e-5;  // nnU-Net's
    const double low = along(worst, 10);
    target[worst] = low < largest_other ? largest_other + kAboveOthers : low;
  }
  return target;
}

}  // namespace tandem

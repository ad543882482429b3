// Volumes at another voxel size, as nnU-Net v2 does it: cubic splines for images, linear interpolation per
// class for labels, nearest neighbour along the long axis of anisotropic volumes. Which spacing is
// data/prepared_case's subject.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/volume.h"

namespace tandem {

using Spacing = std::array<double, 3>;  // z, y, x; mm

// Axis sizes round(from_mm / to_mm * shape), ties to even, at least 1.
Index3 resampled_shape(const Index3& shape, const Spacing& from_mm, const Spacing& to_mm);

// The axis along which slices stay apart: there is one if the largest spacing of `from_mm`, else of `to_mm`,
// is more than 3 times the smallest, and exactly one axis has it.
std::optional<int> separate_axis(const Spacing& from_mm, const Spacing& to_mm);

// From one grid to another over the same field of view: output voxel i reads at (i + 0.5) * from / to - 0.5.
struct ResamplePlan {
  Index3 from{}, to{};
  std::optional<int> separate;  // nearest neighbour along this axis, the interpolation within its slices

  ResamplePlan reversed() const { return {to, from, separate}; }
};

// How the grid of a network lies in the grid of the file: a box of it, resampled.
struct GridPlacement {
  Index3 source{};    // sizes of the file's grid
  Index3 begin{};     // of the box
  ResamplePlan plan;  // from the box to the network's grid

  bool is_source() const { return plan.from == plan.to && plan.from == source; }
};

// Neighbours of one output voxel along an axis in linear interpolation: two with their weights, or the
// nearest alone (its weight is 1, the other's 0).
struct LinearPair {
  std::array<std::int64_t, 2> index{};
  std::array<double, 2> weight{};
};
// Of every output voxel; the nearest alone with `nearest`, and where the size does not change.
std::vector<LinearPair> linear_pairs(std::int64_t from, std::int64_t to, bool nearest);

// values [from z, y, x, depth] -> [to z, y, x, depth]. order 3: cubic B-spline with prefilter, beyond the
// edge the edge voxel goes on, results limited to the range of the input (of each slice where slices are
// apart): scikit-image's resize(order=3, mode="edge", anti_aliasing=False). order 1: linear. In double per
// line, rounded once per axis.
std::vector<float> resample_values(std::span<const float> values, const ResamplePlan& plan,
                                   std::int64_t depth, int order);

// Classes [from] -> [to]: the class whose linear interpolation of 0 and 1 reaches one half, the higher of
// two; 0 where none does.
std::vector<std::uint8_t> resample_classes(std::span<const std::uint8_t> classes, const ResamplePlan& plan);

}  // namespace tandem

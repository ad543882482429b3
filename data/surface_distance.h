// Surfaces of two masks and the distances between them in mm: Hausdorff and its percentiles, average
// distance, normalised surface Dice. Empty masks and classes are data/case_score's subject.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/volume.h"

namespace tandem {

// 1 where a voxel belongs to the mask [Z, Y, X] and one of its 6 neighbours does not; beyond the border
// nothing belongs to it (mask XOR its erosion).
std::vector<std::uint8_t> surface_voxels(std::span<const std::uint8_t> mask, const Index3& shape);

// Of every surface voxel of one mask the distance in mm to the nearest surface voxel of the other, ascending.
struct SurfaceDistances {
  std::vector<double> to_reference;  // from the prediction's surface
  std::vector<double> to_prediction;

  // Largest of both lists: the Hausdorff distance.
  double hausdorff_mm() const;
  // Larger of the two lists' percentiles (MONAI's rule), 0 <= percent <= 100.
  double hausdorff_percentile_mm(double percent) const;
  // Percentile of both lists taken together (MedPy's rule).
  double pooled_percentile_mm(double percent) const;
  // Mean over both lists taken together: average symmetric surface distance.
  double average_mm() const;
  // Part of all surface voxels whose distance is at most the tolerance. Distances above it by less than 1e-6
  // of it count as equal: voxel sizes are FP32 numbers in NIfTI files, where 0.8 is 0.800000012.
  double surface_dice(double tolerance_mm) const;
};

// Two masks [Z, Y, X], neither of them empty.
SurfaceDistances surface_distances(std::span<const std::uint8_t> prediction,
                                   std::span<const std::uint8_t> reference, const Index3& shape,
                                   const std::array<double, 3>& spacing_mm);

// Percentile of ascending values with linear interpolation at percent / 100 * (n - 1); n >= 1.
double percentile_of(std::span<const double> ascending, double percent);

}  // namespace tandem

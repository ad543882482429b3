// Network, patch and batch for a data set by the rules of nnU-Net (Isensee et al. 2021; nnunetv2 2.8.1's
// ExperimentPlanner): pure functions of spacings, shapes and a budget. Reading the data set is train/plan.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/resample.h"

namespace tandem {

using MedianShape = std::array<double, 3>;  // z, y, x; halves where the number of cases is even

// A U-Net that halves axes as far as they go.
struct NetworkTopology {
  Index3 patch{};                                             // padded to what the strides divide
  std::vector<std::array<std::int64_t, 3>> strides, kernels;  // per stage, finest first
  Index3 multiple() const;                                    // product of the strides
};

// Repeats: an axis is halved if its size is >= 8 and its spacing less than twice the smallest one of such
// axes; a single axis only from 12 voxels. The kernel of an axis is 1 until its spacing is less than twice
// the smallest of all, then 3; the last stage has 3 everywhere.
NetworkTopology plan_topology(const Spacing& spacing_mm, const MedianShape& size);

// min(320, 32 * 2^stage) for each stage.
std::vector<std::int64_t> planned_features(std::size_t stages);

// Values that the convolutions of one sample put out: encoder, transposed convolutions, decoder, one head per
// level.
double conv_output_values(const NetworkTopology& topology, std::int64_t outputs);

struct NetworkPlan {
  NetworkTopology topology;
  std::int64_t batch = 2;
};

// What the planner must know of a data set.
struct PlanRequest {
  Spacing spacing_mm{};  // after resampling
  MedianShape shape{};   // after cropping and resampling
  std::int64_t cases = 1, outputs = 2;
  double memory_gb = 8;  // of 2^30 bytes: 560e6 values of conv_output_values in batches of 2 take 8
};

// The patch starts as the median shape, or as 256^3 voxels of the shape 1 / spacing where that is less, and
// shrinks along the axis that is the largest part of the median shape until a batch of 2 fits; the rest of
// the memory goes into the batch, which covers at most 5 % of the voxels of the data set, and at least 2
// samples.
NetworkPlan plan_network(const PlanRequest& request);

// Median per axis; an axis whose spacing is more than 3 times the others' and that has less than a third of
// their voxels takes the 10th percentile of its spacings, but not less than the others. Of at least one case.
Spacing planned_spacing(const std::vector<Spacing>& spacings_mm, const std::vector<Index3>& shapes);

// Of each axis; the mean of the middle two for an even number.
MedianShape median_shape(const std::vector<Index3>& shapes);

}  // namespace tandem

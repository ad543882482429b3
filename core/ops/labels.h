// Tensors of class labels and of weights per voxel, which have no gradient: brought to another size, or to
// one channel per class.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/tensor.h"

namespace tandem {

// Class index of a voxel that nobody labelled (data.ignore_label): losses and metrics leave it out.
inline constexpr std::int32_t kUnlabelled = -1;

// Nearest neighbour: labels (I32) or weights (F32) [N,C,spatial] -> [N,C,to], voxel i of an axis takes (2 i +
// 1) in / (2 out) rounded down: the centre nearest to its own (PyTorch's nearest-exact, nnU-Net's deep
// supervision). `to`: a shape with the wanted spatial sizes and the same rank. On the voxels' device; the
// same tensor where nothing changes.
Tensor nearest_voxels(const Tensor& voxels, const Shape& to);

// I32 labels [N,1,spatial] -> [N,classes,spatial] of `dtype`: 1 in the label's channel, else 0. Error{kShape}
// for a label that is no class.
Tensor one_hot(const Tensor& labels, std::int64_t classes, DType dtype);

// Weights per class from how often each occurs, n_k of N voxels or images in K classes.
enum class ClassWeightRule {
  kInverse,    // N / (K n_k)
  kSqrt,       // the root of it, scaled to a mean of 1
  kEffective,  // (1 - b) / (1 - b^n_k) with b = 0.999, scaled to a mean of 1 (Cui et al. 2019)
};
// Error{kShape} for a class that does not occur.
std::vector<double> class_weights(ClassWeightRule rule, const std::vector<std::int64_t>& counts);

}  // namespace tandem

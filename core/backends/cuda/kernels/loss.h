// What the kernels of the segmentation losses share (SegmentationLossArgs says what they compute): labels,
// options and the layout of the partial sums. Softmax: loss_softmax.h, sigmoid: loss_sigmoid.h.
#pragma once

#include "core/backends/cuda/kernels/softmax.h"

namespace tandem::cuda {

inline constexpr std::int64_t kLossRows = 512;                     // of a block
inline constexpr std::int32_t kIgnoredLabel = -1, kBadLabel = -2;  // in place of a class

// One block per chunk of kLossRows rows of a sample: block.index() = sample * chunks + chunk.
struct LossShape {
  std::int64_t rows_per_sample, chunks, channels;
  std::int32_t width;  // threads that share a row; a power of two up to 32
};

struct LossOptions {
  bool has_ignore_label, multi_label, squared;
  std::int32_t ignore_label;
  float smoothing, gamma, weight_sum, negative_weight;
  const float* class_weight;  // [channels]
};

template <class T>
struct LossInputs {
  LossShape shape;
  LossOptions options;
  Elements<T> logits;
  const std::int32_t* labels;
  const float* voxel_weight;  // may be null

  TD_HD float times(std::int64_t row) const { return voxel_weight == nullptr ? 1.0f : voxel_weight[row]; }
  // The label as one of `classes` classes, kIgnoredLabel or kBadLabel.
  TD_HD std::int32_t checked(std::int32_t label, float times_of_row, std::int64_t classes) const {
    if ((options.has_ignore_label && label == options.ignore_label) || times_of_row == 0.0f)
      return kIgnoredLabel;
    return label >= 0 && label < classes ? label : kBadLabel;
  }
};

// The rows of a block.
struct LossChunk {
  std::int64_t sample, first, rows;
};
TD_HD LossChunk loss_chunk(const LossShape& shape, std::int64_t block) {
  const Place at = split(block, shape.chunks);
  const std::int64_t begin = at.column * kLossRows, left = shape.rows_per_sample - begin;
  return {at.row, at.row * shape.rows_per_sample + begin, left < kLossRows ? left : kLossRows};
}

// Sums of one class, and of the pointwise term.
struct ClassSums {
  float intersection = 0, prediction = 0, truth = 0;
};

// Stores a thread's sums of channel c, added up over the block, in the slots I, P, G of `to`.
template <class Block>
TD_D void store_class_sums(Block& block, float (&shared)[kBlockThreads], const LossShape& shape,
                           ClassSums sums, std::int64_t c, double* to) {
  sums.intersection = column_sum(block, shared, sums.intersection, shape.width);
  sums.prediction = column_sum(block, shared, sums.prediction, shape.width);
  sums.truth = column_sum(block, shared, sums.truth, shape.width);
  if (c >= shape.channels || block.thread() >= shape.width) return;
  to[c] = static_cast<double>(sums.intersection);
  to[shape.channels + c] = static_cast<double>(sums.prediction);
  to[2 * shape.channels + c] = static_cast<double>(sums.truth);
}

// The loss's derivatives by the sums, times the seed; of_prediction and of_intersection: [samples, channels].
struct LossFactors {
  const float *of_prediction, *of_intersection;
  float pointwise;

  // d loss / d p of the overlap.
  TD_HD float slope(std::int64_t at, float p, bool here, bool squared) const {
    return of_prediction[at] * (squared ? 2.0f * p : 1.0f) + (here ? of_intersection[at] : 0.0f);
  }
};

// Of an ignored label 0, of a wrong one NaN.
TD_HD float gradient_of_label(std::int32_t label, float gradient) {
  return label >= 0 ? gradient : label == kIgnoredLabel ? 0.0f : __builtin_nanf("");
}

}  // namespace tandem::cuda

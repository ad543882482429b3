// How well a prediction covers the truth, from three sums per class: soft Dice and Tversky with their slopes.
// Scalar maths in double; the sums are a backend's, the means over classes are core/backends/common/loss_terms.
#pragma once

#include "core/base/host_device.h"

namespace tandem::kernels {

// Over the voxels that count: I = sum(p g), P = sum(p) (or sum(p^2)), G = sum(g).
struct OverlapSums {
  double intersection, prediction, truth;
};

// A value and its derivatives by I and P.
struct OverlapTerm {
  double value, by_intersection, by_prediction;
};

// No denominator is below this; there its own slope is 0 (PyTorch's clamp_min).
constexpr double kOverlapFloor = 1e-8;

// numerator / max(denominator, floor), each linear in I and P with the given slopes. NaN stays NaN.
struct LinearRatio {
  double numerator, denominator;
  double numerator_by_i, denominator_by_i, denominator_by_p;
};
TD_HD OverlapTerm overlap_ratio(const LinearRatio& r) {
  const bool clamped = r.denominator < kOverlapFloor;
  const double denominator = clamped ? kOverlapFloor : r.denominator;
  const double fall = clamped ? 0.0 : r.numerator / (denominator * denominator);
  return {r.numerator / denominator, r.numerator_by_i / denominator - fall * r.denominator_by_i,
          -fall * r.denominator_by_p};
}

// (2 I + s) / (P + G + s)      (Milletari et al. 2016; nnU-Net v2's form)
TD_HD OverlapTerm dice_term(const OverlapSums& s, double smooth) {
  return overlap_ratio({2 * s.intersection + smooth, s.prediction + s.truth + smooth, 2, 0, 1});
}

// (I + s) / (I + alpha (P - I) + beta (G - I) + s): alpha weighs false positives, beta false negatives
// (Salehi et al. 2017). alpha = beta = 1/2 with s/2 is Dice with s.
TD_HD OverlapTerm tversky_term(const OverlapSums& s, double smooth, double alpha, double beta) {
  const double i = s.intersection, rest = 1 - alpha - beta;
  return overlap_ratio(
      {i + smooth, rest * i + alpha * s.prediction + beta * s.truth + smooth, 1, rest, alpha});
}

}  // namespace tandem::kernels

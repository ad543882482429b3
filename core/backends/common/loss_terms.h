// From the sums of a segmentation loss to its value and to the factors of its gradient, in double on the
// host. The sums and the gradient's loop over voxels are each backend's own.
#pragma once

#include <cstdint>
#include <vector>

#include "core/backends/kernel_args.h"

namespace tandem {

// The first class in the mean of the overlap: 1 without the background. A single channel and independent
// labels have no background.
std::int64_t first_overlap_class(const SegmentationLossArgs& args, std::int64_t classes);

class LossTerms {
 public:
  // `sums` F64 [N, 3 C + 2] as SegmentationLossArgs says; on the host.
  LossTerms(const SegmentationLossArgs& args, const Tensor& sums);

  double loss() const { return loss_; }
  // d loss / d (sum of the pointwise term): its weight over the weight of the valid voxels, 0 without any.
  double by_pointwise() const { return by_pointwise_; }
  // d loss / d I and d loss / d P of class c in sample n.
  double by_intersection(std::int64_t n, std::int64_t c) const { return term(by_intersection_, n, c); }
  double by_prediction(std::int64_t n, std::int64_t c) const { return term(by_prediction_, n, c); }

 private:
  double term(const std::vector<double>& terms, std::int64_t n, std::int64_t c) const {
    return terms[static_cast<std::size_t>(n * classes_ + c)];
  }

  std::int64_t classes_;
  double loss_ = 0, by_pointwise_ = 0;
  std::vector<double> by_intersection_, by_prediction_;  // [N, C]
};

}  // namespace tandem

// Means over classes and groups of voxels; the value of one class is core/kernels/overlap.h's.
#include "core/backends/common/loss_terms.h"

#include <algorithm>
#include <cmath>

#include "core/kernels/overlap.h"

namespace tandem {
namespace {

using kernels::OverlapSums, kernels::OverlapTerm;

// The sums [N, 3 C + 2] by name.
class Sums {
 public:
  explicit Sums(const Tensor& sums)
      : data_(sums.data<double>()), batch_(sums.shape()[0]), slots_(sums.shape()[1]) {}

  std::int64_t batch() const { return batch_; }
  std::int64_t classes() const { return (slots_ - 2) / 3; }
  double pointwise() const { return over_batch(3 * classes()); }
  double weight() const { return over_batch(3 * classes() + 1); }
  // Of sample n, or of all for n < 0.
  OverlapSums overlap(std::int64_t n, std::int64_t c) const {
    return {of(n, c), of(n, classes() + c), of(n, 2 * classes() + c)};
  }

 private:
  double over_batch(std::int64_t slot) const {
    double total = 0;
    for (std::int64_t n = 0; n < batch_; ++n) total += data_[n * slots_ + slot];
    return total;
  }
  double of(std::int64_t n, std::int64_t slot) const {
    return n < 0 ? over_batch(slot) : data_[n * slots_ + slot];
  }

  const double* data_;
  std::int64_t batch_, slots_;
};

// 1 / G^2 of the classes from `first`; an absent class has the largest weight of the present ones (MONAI's
// rule), and 1 where none is present.
std::vector<double> generalized_weights(const std::vector<OverlapSums>& sums, std::int64_t first) {
  std::vector<double> weights(sums.size(), 0.0);
  double largest = 0;
  for (std::size_t c = static_cast<std::size_t>(first); c < sums.size(); ++c)
    if (sums[c].truth > 0) {
      weights[c] = 1 / (sums[c].truth * sums[c].truth);
      largest = std::max(largest, weights[c]);
    }
  for (std::size_t c = static_cast<std::size_t>(first); c < sums.size(); ++c)
    if (!(sums[c].truth > 0)) weights[c] = largest > 0 ? largest : 1;
  return weights;
}

// One value over all classes: (2 sum w I + s) / (sum w (P + G) + s) (Sudre et al. 2017). Adds the value to
// the first term.
std::vector<OverlapTerm> generalized_terms(const std::vector<OverlapSums>& sums, std::int64_t first,
                                           double smooth) {
  const std::vector<double> weights = generalized_weights(sums, first);
  double numerator = smooth, denominator = smooth;
  for (std::size_t c = static_cast<std::size_t>(first); c < sums.size(); ++c) {
    numerator += 2 * weights[c] * sums[c].intersection;
    denominator += weights[c] * (sums[c].prediction + sums[c].truth);
  }
  std::vector<OverlapTerm> terms(sums.size(), OverlapTerm{0, 0, 0});
  for (std::size_t c = static_cast<std::size_t>(first); c < sums.size(); ++c) {
    terms[c] = kernels::overlap_ratio({numerator, denominator, 2 * weights[c], 0, weights[c]});
    if (c > static_cast<std::size_t>(first)) terms[c].value = 0;
  }
  return terms;
}

// The terms of one group of voxels; those before `first` are 0.
std::vector<OverlapTerm> group_terms(const SegmentationLossArgs& args, const std::vector<OverlapSums>& sums,
                                     std::int64_t first) {
  if (args.overlap == OverlapLoss::kGeneralizedDice) return generalized_terms(sums, first, args.smooth);
  std::vector<OverlapTerm> terms(sums.size(), OverlapTerm{0, 0, 0});
  for (std::size_t c = static_cast<std::size_t>(first); c < sums.size(); ++c)
    terms[c] = args.overlap == OverlapLoss::kTversky
                   ? kernels::tversky_term(sums[c], args.smooth, args.tversky_alpha, args.tversky_beta)
                   : kernels::dice_term(sums[c], args.smooth);
  return terms;
}

}  // namespace

std::int64_t first_overlap_class(const SegmentationLossArgs& args, std::int64_t classes) {
  const bool no_background =
      args.multi_label || (args.activation == LossActivation::kSigmoid && classes == 1);
  return args.dice_background || no_background ? 0 : 1;
}

LossTerms::LossTerms(const SegmentationLossArgs& args, const Tensor& tensor)
    : classes_((tensor.shape()[1] - 2) / 3) {
  const Sums sums(tensor);
  const std::int64_t batch = sums.batch();
  by_intersection_.assign(static_cast<std::size_t>(batch * classes_), 0.0);
  by_prediction_ = by_intersection_;
  // A wrong label made the pointwise sum NaN; it is no loss even where only the overlap counts.
  loss_ = std::isnan(sums.pointwise()) ? sums.pointwise() : 0.0;
  if (args.ce_weight != 0 && sums.weight() > 0) {
    by_pointwise_ = args.ce_weight / sums.weight();
    loss_ += args.ce_weight * sums.pointwise() / sums.weight();
  }
  if (args.dice_weight == 0) return;
  const std::int64_t first = first_overlap_class(args, classes_), groups = args.dice_batch ? 1 : batch;
  const std::int64_t each = args.overlap == OverlapLoss::kGeneralizedDice ? 1 : classes_ - first;
  const double factor = -args.dice_weight / static_cast<double>(groups * each);
  for (std::int64_t n = 0; n < batch; ++n) {
    std::vector<OverlapSums> group;
    for (std::int64_t c = 0; c < classes_; ++c) group.push_back(sums.overlap(args.dice_batch ? -1 : n, c));
    const std::vector<OverlapTerm> terms = group_terms(args, group, first);
    for (std::int64_t c = 0; c < classes_; ++c) {
      const OverlapTerm& term = terms[static_cast<std::size_t>(c)];
      if (n < groups) loss_ += factor * term.value;
      by_intersection_[static_cast<std::size_t>(n * classes_ + c)] = factor * term.by_intersection;
      by_prediction_[static_cast<std::size_t>(n * classes_ + c)] = factor * term.by_prediction;
    }
  }
}

}  // namespace tandem

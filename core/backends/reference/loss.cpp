// Softmax, and cross entropy with soft Dice as SegmentationLossArgs defines them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/backends/reference/reference_impl.h"

namespace tandem {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// log softmax of one row: x - max - log sum exp(x - max).
std::vector<double> log_softmax(const ReferenceMatrix& x, std::int64_t row, std::int64_t channels) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t c = 0; c < channels; ++c) largest = std::max(largest, x(row, c));
  for (std::int64_t c = 0; c < channels; ++c) sum += std::exp(x(row, c) - largest);
  std::vector<double> result;
  for (std::int64_t c = 0; c < channels; ++c) result.push_back(x(row, c) - largest - std::log(sum));
  return result;
}

bool is_ignored(const SegmentationLossArgs& args, std::int32_t label) {
  return args.has_ignore_label && label == args.ignore_label;
}

// The rows of sums [N, 3 C + 2] by name.
struct LossSums {
  LossSums(const Tensor& sums, std::int64_t classes) : matrix(sums), c(classes), batch(sums.shape()[0]) {}
  double& intersection(std::int64_t n, std::int64_t k) const { return matrix(n, k); }
  double& prediction(std::int64_t n, std::int64_t k) const { return matrix(n, c + k); }
  double& truth(std::int64_t n, std::int64_t k) const { return matrix(n, 2 * c + k); }
  double& nll(std::int64_t n) const { return matrix(n, 3 * c); }
  double& valid(std::int64_t n) const { return matrix(n, 3 * c + 1); }
  double total_nll() const { return total(3 * c); }
  double total_valid() const { return total(3 * c + 1); }
  double total(std::int64_t column) const {
    double sum = 0;
    for (std::int64_t n = 0; n < batch; ++n) sum += matrix(n, column);
    return sum;
  }

  ReferenceMatrix matrix;
  std::int64_t c, batch;
};

// Numerator and denominator of D of class k in sample n, or over the batch.
struct DiceTerm {
  DiceTerm(const SegmentationLossArgs& args, const LossSums& s, std::int64_t n, std::int64_t k) {
    const double i = args.dice_batch ? s.total(k) : s.intersection(n, k);
    const double p = args.dice_batch ? s.total(s.c + k) : s.prediction(n, k);
    const double g = args.dice_batch ? s.total(2 * s.c + k) : s.truth(n, k);
    numerator = 2 * i + args.smooth;
    clamped = p + g + args.smooth < 1e-8;
    denominator = clamped ? 1e-8 : p + g + args.smooth;
  }
  double value() const { return numerator / denominator; }
  // dD / dp at a voxel where g is 1 or 0.
  double slope(const SegmentationLossArgs& args, double p, double g) const {
    const double fall = clamped ? 0.0 : numerator / (denominator * denominator);
    return 2 * g / denominator - fall * (args.dice_squared ? 2 * p : 1.0);
  }

  double numerator, denominator;
  bool clamped;
};

std::int64_t first_class(const SegmentationLossArgs& args) { return args.dice_background ? 0 : 1; }

double dice_terms(const SegmentationLossArgs& args, const LossSums& s) {
  return static_cast<double>((s.c - first_class(args)) * (args.dice_batch ? 1 : s.batch));
}

}  // namespace

void ReferenceBackend::softmax_forward(const SoftmaxArgs& args, const Tensor& x, const Tensor& y) {
  const ReferenceMatrix mx(x), my(y);
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const std::vector<double> logs = log_softmax(mx, r, x.channels());
    for (std::int64_t c = 0; c < x.channels(); ++c) {
      const double log_p = logs[static_cast<std::size_t>(c)];
      my(r, c) = args.log ? log_p : std::exp(log_p);
    }
  }
}

void ReferenceBackend::softmax_backward(const SoftmaxArgs& args, const Tensor& dy, const Tensor& y,
                                        const Tensor& dx) {
  const ReferenceMatrix mdy(dy), my(y), mdx(dx);
  for (std::int64_t r = 0; r < y.rows(); ++r) {
    double dot = 0;
    for (std::int64_t c = 0; c < y.channels(); ++c) dot += args.log ? mdy(r, c) : mdy(r, c) * my(r, c);
    for (std::int64_t c = 0; c < y.channels(); ++c)
      mdx(r, c) = args.log ? mdy(r, c) - std::exp(my(r, c)) * dot : my(r, c) * (mdy(r, c) - dot);
  }
}

void ReferenceBackend::segmentation_loss(const SegmentationLossArgs& args, const Tensor& logits,
                                         const Tensor& labels, const Tensor& sums, const Tensor& loss) {
  const ReferenceMatrix x(logits);
  const std::int64_t classes = logits.channels(), voxels = logits.shape().spatial_numel();
  const LossSums s(sums, classes);
  sums.set_zero();
  for (std::int64_t r = 0; r < logits.rows(); ++r) {
    const std::int64_t n = r / voxels;
    const std::int32_t label = labels.data<std::int32_t>()[r];
    if (is_ignored(args, label)) continue;
    s.valid(n) += 1;
    if (label < 0 || label >= classes) {
      s.nll(n) = kNan;
      continue;
    }
    const std::vector<double> logs = log_softmax(x, r, classes);
    for (std::int64_t c = 0; c < classes; ++c) {
      const double log_p = logs[static_cast<std::size_t>(c)], p = std::exp(log_p);
      s.prediction(n, c) += args.dice_squared ? p * p : p;
      if (args.label_smoothing > 0) s.nll(n) -= args.label_smoothing / static_cast<double>(classes) * log_p;
      if (c != label) continue;
      s.intersection(n, c) += p;
      s.truth(n, c) += 1;
      s.nll(n) -= (1 - args.label_smoothing) * log_p;
    }
  }
  double result = std::isnan(s.total_nll()) ? kNan : 0.0;
  if (args.ce_weight != 0 && s.total_valid() > 0) result += args.ce_weight * s.total_nll() / s.total_valid();
  if (args.dice_weight != 0)
    for (std::int64_t n = 0; n < (args.dice_batch ? 1 : s.batch); ++n)
      for (std::int64_t c = first_class(args); c < classes; ++c)
        result -= args.dice_weight * DiceTerm(args, s, n, c).value() / dice_terms(args, s);
  loss.data<double>()[0] = result;
}

void ReferenceBackend::segmentation_loss_backward(const SegmentationLossArgs& args, const LossTensors& t,
                                                  const Tensor& seed, const Tensor& dlogits) {
  const ReferenceMatrix x(t.logits), dx(dlogits);
  const std::int64_t classes = t.logits.channels(), voxels = t.logits.shape().spatial_numel();
  const LossSums s(t.sums, classes);
  const double scale = seed.data<double>()[0], valid = s.total_valid();
  for (std::int64_t r = 0; r < t.logits.rows(); ++r) {
    const std::int32_t label = t.labels.data<std::int32_t>()[r];
    const bool ignored = is_ignored(args, label);
    const bool usable = !ignored && label >= 0 && label < classes;
    const std::vector<double> logs = log_softmax(x, r, classes);
    std::vector<double> slopes;  // of the Dice loss towards p
    double dot = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      const double p = std::exp(logs[static_cast<std::size_t>(c)]);
      const bool counted = usable && args.dice_weight != 0 && c >= first_class(args);
      slopes.push_back(counted ? -args.dice_weight / dice_terms(args, s) *
                                     DiceTerm(args, s, r / voxels, c).slope(args, p, c == label)
                               : 0.0);
      dot += slopes.back() * p;
    }
    for (std::int64_t c = 0; c < classes; ++c) {
      const double p = std::exp(logs[static_cast<std::size_t>(c)]);
      const double target =
          args.label_smoothing / static_cast<double>(classes) + (c == label ? 1 - args.label_smoothing : 0.0);
      const double ce = args.ce_weight == 0 ? 0.0 : args.ce_weight * (p - target) / valid;
      const double slope = ce + p * (slopes[static_cast<std::size_t>(c)] - dot);
      dx(r, c) = ignored ? 0.0 : usable ? scale * slope : kNan;
    }
  }
}

}  // namespace tandem

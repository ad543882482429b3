// The segmentation losses as SegmentationLossArgs defines them, voxel by voxel in double. Softmax as an op is
// in softmax.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/backends/common/loss_terms.h"
#include "core/backends/reference/reference_impl.h"

namespace tandem {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kIgnored = -1, kBad = -2;

double log_one_plus_exp(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))); }

// What one voxel adds to the loss.
struct VoxelTerms {
  std::vector<double> p;         // probability per channel
  std::vector<int> target;       // 1, 0, kIgnored or kBad per channel
  std::vector<double> slope;     // of the pointwise value towards each logit
  double value = 0, weight = 0;  // pointwise
};

class LossRows {
 public:
  LossRows(const SegmentationLossArgs& args, const LossTensors& t)
      : args_(args), x_(t.logits), labels_(t.labels.data<std::int32_t>()), channels_(t.logits.channels()) {
    if (t.voxel_weights.defined()) weights_ = t.voxel_weights.data<float>();
  }

  double voxel_weight(std::int64_t row) const {
    return weights_ == nullptr ? 1.0 : static_cast<double>(weights_[row]);
  }

  VoxelTerms at(std::int64_t row) const {
    VoxelTerms v;
    for (std::int64_t c = 0; c < channels_; ++c) v.target.push_back(target(row, c));
    v.slope.resize(v.target.size());
    args_.activation == LossActivation::kSigmoid ? sigmoid(row, v) : softmax(row, v);
    return v;
  }

 private:
  double weight(std::int64_t c) const {
    return args_.class_weights.empty() ? 1.0 : args_.class_weights[static_cast<std::size_t>(c)];
  }

  int target(std::int64_t row, std::int64_t c) const {
    const std::int32_t label = labels_[args_.multi_label ? row * channels_ + c : row];
    if (args_.has_ignore_label && label == args_.ignore_label) return kIgnored;
    if (voxel_weight(row) == 0) return kIgnored;
    if (args_.multi_label) return label == 0 || label == 1 ? label : kBad;
    const std::int64_t shift = args_.activation == LossActivation::kSigmoid && channels_ == 1 ? 1 : 0;
    if (label < 0 || label >= channels_ + shift) return kBad;
    return label == c + shift ? 1 : 0;
  }

  void softmax(std::int64_t row, VoxelTerms& v) const {
    const std::vector<double> logs = log_softmax(x_, row, channels_);
    for (const double log_p : logs) v.p.push_back(std::exp(log_p));
    const auto y = static_cast<std::size_t>(std::ranges::find(v.target, 1) - v.target.begin());
    if (y == v.target.size()) return;  // ignored or bad
    v.weight = weight(static_cast<std::int64_t>(y));
    if (args_.gamma != 0) return focal(y, logs[y], v);
    double mass = 0;
    for (std::size_t c = 0; c < logs.size(); ++c) {
      const double share =
          weight(static_cast<std::int64_t>(c)) * (args_.label_smoothing / static_cast<double>(channels_) +
                                                  (c == y ? 1 - args_.label_smoothing : 0.0));
      if (share != 0) v.value -= share * logs[c];  // a logit of -inf may have no share
      v.slope[c] -= share;
      mass += share;
    }
    for (std::size_t c = 0; c < logs.size(); ++c) v.slope[c] += mass * v.p[c];
  }

  void focal(std::size_t y, double log_p, VoxelTerms& v) const {
    double rest = 0;  // 1 - p without cancellation
    for (std::size_t c = 0; c < v.p.size(); ++c) rest += c == y ? 0.0 : v.p[c];
    const double power = std::pow(rest, args_.gamma), ratio = rest > 0 ? log_p / rest : -1.0;
    v.value = -v.weight * power * log_p;
    const double slope = v.weight * power * (args_.gamma * v.p[y] * ratio - 1);  // by log p
    for (std::size_t c = 0; c < v.p.size(); ++c) v.slope[c] = slope * ((c == y ? 1.0 : 0.0) - v.p[c]);
  }

  void sigmoid(std::int64_t row, VoxelTerms& v) const {
    for (std::int64_t c = 0; c < channels_; ++c) {
      const auto i = static_cast<std::size_t>(c);
      const double z = x_(row, c), minus_log_p = log_one_plus_exp(-z), minus_log_q = log_one_plus_exp(z);
      const double p = std::exp(-minus_log_p), q = std::exp(-minus_log_q), g = args_.gamma;
      v.p.push_back(p);
      if (v.target[i] < 0) continue;
      v.weight += 1;
      const double rise = g == 0 ? 0.0 : g * (v.target[i] == 1 ? p * minus_log_p : q * minus_log_q);
      if (v.target[i] == 1) {
        const double w = weight(c) * args_.alpha.value_or(1.0) * std::pow(q, g);
        v.value += w * minus_log_p;
        v.slope[i] = -w * (rise + q);
      } else {
        const double w = (args_.alpha ? 1 - *args_.alpha : 1.0) * std::pow(p, g);
        v.value += w * minus_log_q;
        v.slope[i] = w * (rise + p);
      }
    }
  }

  const SegmentationLossArgs& args_;
  ReferenceMatrix x_;
  const std::int32_t* labels_;
  const float* weights_ = nullptr;
  std::int64_t channels_;
};

}  // namespace

void ReferenceBackend::segmentation_loss(const SegmentationLossArgs& args, const LossTensors& t,
                                         const Tensor& loss) {
  const LossRows rows(args, t);
  const ReferenceMatrix s(t.sums);
  const std::int64_t classes = t.logits.channels(), voxels = t.logits.shape().spatial_numel();
  t.sums.set_zero();
  for (std::int64_t r = 0; r < t.logits.rows(); ++r) {
    const std::int64_t n = r / voxels;
    const double times = rows.voxel_weight(r);
    const VoxelTerms v = rows.at(r);
    s(n, 3 * classes) += times * v.value;
    s(n, 3 * classes + 1) += times * v.weight;
    for (std::int64_t c = 0; c < classes; ++c) {
      const auto i = static_cast<std::size_t>(c);
      if (v.target[i] == kBad) s(n, 3 * classes) = kNan;
      if (v.target[i] < 0) continue;
      s(n, c) += times * v.p[i] * v.target[i];
      s(n, classes + c) += times * (args.dice_squared ? v.p[i] * v.p[i] : v.p[i]);
      s(n, 2 * classes + c) += times * v.target[i];
    }
  }
  loss.data<double>()[0] = LossTerms(args, t.sums).loss();
}

void ReferenceBackend::segmentation_loss_backward(const SegmentationLossArgs& args, const LossTensors& t,
                                                  const Tensor& seed, const Tensor& dlogits) {
  const LossRows rows(args, t);
  const LossTerms terms(args, t.sums);
  const ReferenceMatrix dx(dlogits);
  const std::int64_t classes = t.logits.channels(), voxels = t.logits.shape().spatial_numel();
  const double scale = seed.data<double>()[0];
  for (std::int64_t r = 0; r < t.logits.rows(); ++r) {
    const std::int64_t n = r / voxels;
    const VoxelTerms v = rows.at(r);
    std::vector<double> slopes;  // of the overlap towards p
    double dot = 0;              // the part that softmax's sum takes back
    for (std::int64_t c = 0; c < classes; ++c) {
      const auto i = static_cast<std::size_t>(c);
      slopes.push_back(v.target[i] < 0 ? 0.0
                                       : terms.by_prediction(n, c) * (args.dice_squared ? 2 * v.p[i] : 1.0) +
                                             terms.by_intersection(n, c) * v.target[i]);
      dot += slopes.back() * v.p[i];
    }
    for (std::int64_t c = 0; c < classes; ++c) {
      const auto i = static_cast<std::size_t>(c);
      const double taken = args.activation == LossActivation::kSigmoid ? slopes[i] * v.p[i] : dot;
      const double slope = terms.by_pointwise() * v.slope[i] + v.p[i] * (slopes[i] - taken);
      dx(r, c) = v.target[i] == kIgnored ? 0.0
                 : v.target[i] == kBad   ? kNan
                                         : scale * rows.voxel_weight(r) * slope;
    }
  }
}

}  // namespace tandem

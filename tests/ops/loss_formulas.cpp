// Direct loops over samples, classes and voxels.
#include "tests/ops/loss_formulas.h"

#include <algorithm>
#include <cmath>

#include "tests/ops/formulas.h"

namespace tandem::testing {
namespace {

struct Sums {
  double i = 0, p = 0, g = 0;
};

// Every counted element of the logits with its probability and target, and how often it counts.
struct Element {
  std::size_t sample, channel;
  double p, target, times;
};

std::vector<Element> elements(const Shape& shape, const Values& logits, const Values& labels,
                              const SegmentationLossArgs& args, const Values& weights) {
  const bool sigmoid = args.activation == LossActivation::kSigmoid;
  Values p = softmax_formula(shape, logits);
  if (sigmoid)
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = 1 / (1 + std::exp(-logits[i]));
  const auto voxels = static_cast<std::size_t>(shape.spatial_numel());
  const auto channels = static_cast<std::size_t>(shape[1]);
  std::vector<Element> all;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const std::size_t n = i / voxels / channels, c = i / voxels % channels;
    const double label = args.multi_label ? labels[i] : labels[n * voxels + i % voxels];
    if (args.has_ignore_label && label == args.ignore_label) continue;
    const bool itself = args.multi_label || (sigmoid && channels == 1);
    const double target = itself ? label : label == static_cast<double>(c) ? 1.0 : 0.0;
    all.push_back({n, c, p[i], target, weights.empty() ? 1.0 : weights[n * voxels + i % voxels]});
  }
  return all;
}

double weight_of(const SegmentationLossArgs& args, std::size_t c) {
  return args.class_weights.empty() ? 1 : args.class_weights[c];
}

double pointwise(const std::vector<Element>& all, const SegmentationLossArgs& args, double channels) {
  double sum = 0, weight = 0;
  for (const Element& e : all) {
    const double w = weight_of(args, e.channel), t = e.target;
    if (args.activation == LossActivation::kSoftmax) {
      const double smooth = (1 - args.label_smoothing) * t + args.label_smoothing / channels;
      sum -= e.times * w * smooth * std::pow(1 - e.p, args.gamma) * std::log(e.p);
      weight += e.times * w * t;
    } else {
      const double a = args.alpha.value_or(1), b = args.alpha ? 1 - *args.alpha : 1;
      sum -= e.times * t * a * w * std::pow(1 - e.p, args.gamma) * std::log(e.p);
      sum -= e.times * (1 - t) * b * std::pow(e.p, args.gamma) * std::log(1 - e.p);
      weight += e.times;
    }
  }
  return sum / weight;
}

double generalized(const std::vector<Sums>& sums, std::size_t first, double smooth) {
  double largest = 0, above = smooth, below = smooth;
  for (std::size_t c = first; c < sums.size(); ++c)
    if (sums[c].g > 0) largest = std::max(largest, std::pow(sums[c].g, -2));
  for (std::size_t c = first; c < sums.size(); ++c) {
    const double w = sums[c].g > 0 ? std::pow(sums[c].g, -2) : largest;
    above += 2 * w * sums[c].i;
    below += w * (sums[c].p + sums[c].g);
  }
  return above / below;
}

double mean_overlap(const std::vector<Sums>& sums, std::size_t first, const SegmentationLossArgs& args) {
  if (args.overlap == OverlapLoss::kGeneralizedDice) return generalized(sums, first, args.smooth);
  double total = 0;
  for (std::size_t c = first; c < sums.size(); ++c) {
    const auto [i, p, g] = sums[c];
    total += args.overlap == OverlapLoss::kDice
                 ? (2 * i + args.smooth) / (p + g + args.smooth)
                 : (i + args.smooth) /
                       (i + args.tversky_alpha * (p - i) + args.tversky_beta * (g - i) + args.smooth);
  }
  return total / static_cast<double>(sums.size() - first);
}

}  // namespace

double segmentation_loss_formula(const Shape& shape, const Values& logits, const Values& labels,
                                 const SegmentationLossArgs& args, const Values& weights) {
  const std::vector<Element> all = elements(shape, logits, labels, args, weights);
  const auto channels = static_cast<std::size_t>(shape[1]);
  double loss =
      args.ce_weight == 0 ? 0 : args.ce_weight * pointwise(all, args, static_cast<double>(channels));
  if (args.dice_weight == 0) return loss;
  const std::size_t groups = args.dice_batch ? 1 : static_cast<std::size_t>(shape[0]);
  const bool single = args.activation == LossActivation::kSigmoid && channels == 1;
  const std::size_t first = args.dice_background || args.multi_label || single ? 0 : 1;
  for (std::size_t group = 0; group < groups; ++group) {
    std::vector<Sums> sums(channels);
    for (const Element& e : all) {
      if (!args.dice_batch && e.sample != group) continue;
      sums[e.channel].i += e.times * e.p * e.target;
      sums[e.channel].p += e.times * (args.dice_squared ? e.p * e.p : e.p);
      sums[e.channel].g += e.times * e.target;
    }
    loss -= args.dice_weight * mean_overlap(sums, first, args) / static_cast<double>(groups);
  }
  return loss;
}

}  // namespace tandem::testing

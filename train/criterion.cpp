// The loss of one output and the weighted sum over outputs.
#include "train/criterion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/ops/elementwise.h"
#include "core/ops/labels.h"
#include "core/ops/loss.h"
#include "core/ops/regression_loss.h"
#include "data/label_map.h"

namespace tandem {
namespace {

using OutputLoss = std::function<Var(const Var& logits, const Target& target)>;

// Probabilities against one channel per class.
OutputLoss error_loss(const LossOptions& options) {
  return [options](const Var& logits, const Target& target) {
    const Var p = softmax(cast(logits, accumulation_dtype(logits.dtype())));
    const Var hot = logits.tape().constant(one_hot(target.label.value(), logits.shape()[1], p.dtype()));
    if (options.name == "mse") return mse_loss(p, hot);
    if (options.name == "l1") return l1_loss(p, hot);
    return smooth_l1_loss(p, hot, options.smooth_l1.beta);
  };
}

OutputLoss output_loss(const LossOptions& options, std::optional<std::int32_t> ignore_label) {
  if (loss_parts(options).pointwise != LossParts::Pointwise::kError)
    return [args = loss_args(options, ignore_label)](const Var& logits, const Target& target) {
      return segmentation_loss(logits, target.label, args, target.weights);
    };
  return error_loss(options);
}

}  // namespace

std::vector<double> deep_supervision_weights(std::size_t n) {
  std::vector<double> weights;
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    weights.push_back(i > 0 && i + 1 == n ? 0.0 : std::ldexp(1.0, -static_cast<int>(i)));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

Criterion make_criterion(const LossOptions& options, std::int64_t classes,
                         std::optional<std::int32_t> ignore_label) {
  if (const auto fault = loss_fault(options, classes, ignore_label.has_value()))
    throw Error(ErrorKind::kConfig, fmt::format("[loss] {}: {}", fault->key, fault->text), fault->hint);
  return [each = output_loss(options, ignore_label)](const Outputs& outputs, const Target& target) {
    Var total = each(outputs.main, target);
    const std::vector<double> weights = deep_supervision_weights(1 + outputs.auxiliary.size());
    if (weights.size() == 1) return total;
    Tape& tape = total.tape();
    const auto weighted = [&](const Var& loss, double weight) {
      return mul(loss, tape.constant(Tensor::from_values(Shape{1}, std::vector<double>{weight}, loss.dtype(),
                                                         loss.value().device())));
    };
    total = weighted(total, weights.front());
    for (std::size_t i = 1; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      const Var& output = outputs.auxiliary[i - 1];
      Target coarse(tape.constant(nearest_voxels(target.label.value(), output.shape())));
      if (target.weights.defined()) coarse.weights = nearest_voxels(target.weights, output.shape());
      total = add(total, weighted(each(output, coarse), weights[i]));
    }
    return total;
  };
}

std::vector<std::int64_t> count_classes(const PatchDataset& data, std::int64_t classes, bool ignores) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes), 0);
  for (const auto& each : data.cases()) {
    const Index3 shape = each->shape();
    std::int64_t background = shape[0] * shape[1] * shape[2];
    for (std::int64_t c = 1; c < classes; ++c) {
      counts[static_cast<std::size_t>(c)] += each->foreground().count(c);
      background -= each->foreground().count(c);
    }
    counts[0] += ignores ? each->foreground().count(0) : background;
  }
  // A class that the cases of a dry run lack may well be in the others.
  if (data.is_partial())
    for (std::int64_t& count : counts) count = std::max<std::int64_t>(count, 1);
  return counts;
}

Criterion make_criterion(const JobOptions& job, const PatchDataset& data) {
  constexpr double kLargeRatio = 50;
  LossOptions loss = job.loss;
  if (needs_class_counts(loss)) {
    loss =
        with_class_counts(loss, count_classes(data, job.data.classes(), job.data.ignore_label.has_value()));
    const auto weights = loss_args(loss, {}).class_weights;
    log_info("loss: class weights [{:.4g}]", fmt::join(weights, ", "));
    const auto [low, high] = std::ranges::minmax(weights);
    if (high > kLargeRatio * low)
      log_warning(
          "loss: the largest class weight is {:.0f} times the smallest; a list, or sqrt, may train "
          "more calmly",
          high / low);
  }
  static_assert(kIgnoredLabel == kUnlabelled);
  const bool is_error = loss_parts(loss).pointwise == LossParts::Pointwise::kError;
  if (is_error && data.has_weights())
    throw Error(
        ErrorKind::kConfig,
        fmt::format("[loss] name: got {} with /weight in the training data, expected a loss that takes "
                    "weights per voxel",
                    loss.name),
        "Use another loss, or files without /weight.");
  const bool can_ignore = !is_error || job.data.ignore_label.has_value();
  return make_criterion(loss, job.data.outputs(), can_ignore ? std::optional(kUnlabelled) : std::nullopt);
}

double loss_offset(const LossOptions& options) {
  return loss_parts(options).overlap ? options.dice.weight : 0;
}

}  // namespace tandem

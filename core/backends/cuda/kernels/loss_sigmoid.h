// Binary cross entropy, focal and overlap losses over sigmoid probabilities, channel by channel: the sums of
// a chunk, and the gradient.
#pragma once

#include "core/backends/cuda/kernels/loss.h"

namespace tandem::cuda {

// 1, 0, kIgnoredLabel or kBadLabel of channel c. One channel stands for class 1 of the classes 0 and 1, as
// does each channel of independent labels.
template <class T>
TD_HD std::int32_t sigmoid_target(const LossInputs<T>& in, std::int64_t row, std::int64_t c, float times) {
  const std::int64_t channels = in.shape.channels;
  const bool multi = in.options.multi_label, binary = multi || channels == 1;
  const std::int32_t label =
      in.checked(in.labels[multi ? row * channels + c : row], times, binary ? 2 : channels);
  if (label < 0) return label;
  return label == (binary ? 1 : c) ? 1 : 0;
}

// p, 1 - p and their negative logarithms, none by subtraction from 1.
struct SigmoidTerms {
  float p, q, minus_log_p, minus_log_q;
};
TD_HD SigmoidTerms sigmoid_terms(float z) {
  const float e = kernels::exp(z > 0.0f ? -z : z), log_sum = kernels::log1p(e), inverse = 1.0f / (1.0f + e);
  const float small = e * inverse;
  return {z > 0.0f ? inverse : small, z > 0.0f ? small : inverse, (z > 0.0f ? 0.0f : -z) + log_sum,
          (z > 0.0f ? z : 0.0f) + log_sum};
}

// The pointwise loss of a channel whose target is 1 (`here`) or 0, and its slope towards the logit.
TD_HD float sigmoid_value(const LossOptions& o, std::int64_t c, const SigmoidTerms& s, bool here) {
  const float value = here ? o.class_weight[c] * s.minus_log_p : o.negative_weight * s.minus_log_q;
  return o.gamma == 0 ? value : value * kernels::exp(-o.gamma * (here ? s.minus_log_q : s.minus_log_p));
}
TD_HD float sigmoid_slope(const LossOptions& o, std::int64_t c, const SigmoidTerms& s, bool here) {
  const float positive = o.class_weight[c], negative = o.negative_weight;
  if (o.gamma == 0) return here ? -positive * s.q : negative * s.p;
  const float rise = o.gamma * (here ? s.p * s.minus_log_p : s.q * s.minus_log_q);
  const float power = kernels::exp(-o.gamma * (here ? s.minus_log_q : s.minus_log_p));
  return power * (here ? -positive * (rise + s.q) : negative * (rise + s.p));
}

// partial[block]: as of SoftmaxLossSums.
template <class T>
struct SigmoidLossSums {
  LossInputs<T> in;
  double* partial;

  struct Shared {
    float column[kBlockThreads];
    double warp[kBlockWarps];
  };

  struct Pointwise {
    float value = 0, weights = 0;
  };
  template <class Block>
  TD_D ClassSums class_sums(Block& block, const LossChunk& chunk, std::int64_t c,
                            Pointwise& pointwise) const {
    ClassSums sums;
    if (c >= in.shape.channels) return sums;
    for (std::int64_t r = block.thread() / in.shape.width; r < chunk.rows;
         r += kBlockThreads / in.shape.width) {
      const std::int64_t row = chunk.first + r;
      const float times = in.times(row);
      const std::int32_t target = sigmoid_target(in, row, c, times);
      if (target == kBadLabel) pointwise.value = __builtin_nanf("");
      if (target < 0) continue;
      const SigmoidTerms s = sigmoid_terms(in.logits.read(row, c));
      if (target == 1) sums.intersection += times * s.p;
      sums.prediction += times * (in.options.squared ? s.p * s.p : s.p);
      sums.truth += target == 1 ? times : 0.0f;
      pointwise.value += times * sigmoid_value(in.options, c, s, target == 1);
      pointwise.weights += times;
    }
    return sums;
  }

  template <class Block>
  TD_D void operator()(Block& block) const {
    const LossChunk chunk = loss_chunk(in.shape, block.index());
    const std::int64_t channels = in.shape.channels;
    double* to = partial + block.index() * (3 * channels + 2);
    Pointwise pointwise;
    for (std::int64_t first = 0; first < channels; first += in.shape.width) {
      const std::int64_t c = first + block.thread() % in.shape.width;
      const ClassSums sums = class_sums(block, chunk, c, pointwise);
      store_class_sums(block, block.shared().column, in.shape, sums, c, to);
    }
    const double value = block_sum(block, block.shared().warp, static_cast<double>(pointwise.value));
    const double weights = block_sum(block, block.shared().warp, static_cast<double>(pointwise.weights));
    if (block.thread() != 0) return;
    to[3 * channels] = value;
    to[3 * channels + 1] = weights;
  }
};

// dlogits, an index per element: p q times d loss / d p of the overlap, and the pointwise term's own.
template <class T>
struct SigmoidLossGradient {
  std::int64_t count;
  LossInputs<T> in;
  LossFactors factors;
  Elements<T> dlogits;

  TD_HD void operator()(std::int64_t i) const {
    const std::int64_t channels = in.shape.channels;
    const Place at = split(i, channels);
    const float times = in.times(at.row);
    const std::int32_t target = sigmoid_target(in, at.row, at.column, times);
    const SigmoidTerms s = sigmoid_terms(in.logits.read(at.row, at.column));
    const bool here = target == 1;
    const std::int64_t of = divide(at.row, in.shape.rows_per_sample) * channels + at.column;
    const float overlap = s.p * s.q * factors.slope(of, s.p, here, in.options.squared);
    const float pointwise = factors.pointwise * sigmoid_slope(in.options, at.column, s, here);
    dlogits.write(at.row, at.column, gradient_of_label(target, times * (overlap + pointwise)));
  }
};

}  // namespace tandem::cuda

// Cross entropy, focal and overlap losses over softmax probabilities: the sums of a chunk, and the gradient.
#pragma once

#include "core/backends/cuda/kernels/loss.h"

namespace tandem::cuda {

// Of one row; the same in all threads that share it.
struct SoftmaxRow {
  float highest, sum;  // of exp(x - highest)
  float at_label;      // x[label] - highest
  float total;         // sum of class weight * (x - highest)
  float others;        // sum without the label's class: 1 - p without cancellation, times sum
};

template <class T, class Block>
TD_D SoftmaxRow softmax_row(Block& block, const LossInputs<T>& in, const RowPlace& at, std::int32_t label) {
  const int width = in.shape.width;
  const std::int64_t channels = at.active ? in.shape.channels : 0;
  SoftmaxRow row{-__builtin_inff(), 0, 0, 0, 0};
  for (std::int64_t c = at.channel; c < channels; c += width) {
    const float value = in.logits.read(at.row, c);
    row.highest = value > row.highest ? value : row.highest;
  }
  row.highest = lane_max(block, row.highest, width);
  for (std::int64_t c = at.channel; c < channels; c += width) {
    const float d = in.logits.read(at.row, c) - row.highest, e = kernels::exp(d);
    const float weight = in.options.class_weight[c];
    row.sum += e;
    row.total += weight == 0.0f ? 0.0f : weight * d;
    row.at_label += c == label ? d : 0.0f;
    row.others += c == label ? 0.0f : e;
  }
  row.sum = lane_sum(block, row.sum, width);
  row.total = lane_sum(block, row.total, width);
  row.at_label = lane_sum(block, row.at_label, width);
  row.others = lane_sum(block, row.others, width);
  return row;
}

// The pointwise loss of a row with a class.
TD_HD float softmax_value(const LossOptions& o, std::int64_t channels, const SoftmaxRow& row, float weight) {
  const float log_sum = kernels::log(row.sum), nll = log_sum - row.at_label;
  if (o.gamma != 0) return nll * (weight * kernels::exp(o.gamma * kernels::log(row.others / row.sum)));
  const float value = weight == 0.0f ? 0.0f : nll * weight;
  if (o.smoothing == 0) return value;
  const float share = o.smoothing / static_cast<float>(channels);
  return (1.0f - o.smoothing) * value + share * (o.weight_sum * log_sum - row.total);
}

// partial[block] = I[channels], P[channels], G[channels], sum of the pointwise term, of its weights.
template <class T>
struct SoftmaxLossSums {
  LossInputs<T> in;
  double* partial;

  struct Shared {
    float highest[kLossRows], sum[kLossRows], times[kLossRows];
    std::int32_t label[kLossRows];
    float column[kBlockThreads];
    double warp[kBlockWarps];
  };

  // Keeps what class_sums needs of each row; the pointwise sums are in the first of the threads of a row.
  template <class Block>
  TD_D void rows(Block& block, const LossChunk& chunk, double* to) const {
    const int width = in.shape.width;
    Shared& shared = block.shared();
    float value = 0, weights = 0;
    for (std::int64_t first = 0; first < chunk.rows; first += kBlockThreads / width) {
      const std::int64_t r = first + block.thread() / width, row = chunk.first + r;
      const RowPlace at{row, block.thread() % width, r < chunk.rows};
      const float times = at.active ? in.times(row) : 0.0f;
      const std::int32_t label =
          at.active ? in.checked(in.labels[row], times, in.shape.channels) : kIgnoredLabel;
      const SoftmaxRow softmax = softmax_row(block, in, at, label);
      if (!at.active || at.channel != 0) continue;
      shared.highest[r] = softmax.highest;
      shared.sum[r] = softmax.sum;
      shared.times[r] = times;
      shared.label[r] = label;
      if (label == kIgnoredLabel) continue;
      const float weight = label == kBadLabel ? 0.0f : in.options.class_weight[label];
      const float mine = softmax_value(in.options, in.shape.channels, softmax, weight);
      value += label == kBadLabel ? __builtin_nanf("") : times * mine;
      weights += times * weight;
    }
    const double all = block_sum(block, shared.warp, static_cast<double>(value));
    const double all_weights = block_sum(block, shared.warp, static_cast<double>(weights));
    if (block.thread() != 0) return;
    to[3 * in.shape.channels] = all;
    to[3 * in.shape.channels + 1] = all_weights;
  }

  template <class Block>
  TD_D ClassSums class_sums(Block& block, const LossChunk& chunk, std::int64_t c) const {
    const Shared& shared = block.shared();
    ClassSums sums;
    if (c >= in.shape.channels) return sums;
    for (std::int64_t r = block.thread() / in.shape.width; r < chunk.rows;
         r += kBlockThreads / in.shape.width) {
      if (shared.label[r] < 0) continue;
      const float p = kernels::exp(in.logits.read(chunk.first + r, c) - shared.highest[r]) / shared.sum[r];
      const float times = shared.times[r], here = shared.label[r] == c ? times : 0.0f;
      sums.intersection += here == 0.0f ? 0.0f : here * p;
      sums.prediction += times * (in.options.squared ? p * p : p);
      sums.truth += here;
    }
    return sums;
  }

  template <class Block>
  TD_D void operator()(Block& block) const {
    const LossChunk chunk = loss_chunk(in.shape, block.index());
    double* to = partial + block.index() * (3 * in.shape.channels + 2);
    rows(block, chunk, to);
    block.sync();
    for (std::int64_t first = 0; first < in.shape.channels; first += in.shape.width) {
      const std::int64_t c = first + block.thread() % in.shape.width;
      store_class_sums(block, block.shared().column, in.shape, class_sums(block, chunk, c), c, to);
    }
  }
};

// The pointwise gradient of a row is pull * (p - target), target = off * class weight, and on more at the
// label.
struct Pull {
  float pull, on, off;
};
TD_HD Pull pull_of(const LossOptions& o, std::int64_t channels, const SoftmaxRow& row, float weight) {
  if (o.gamma != 0) {
    const float q = row.others / row.sum, p = kernels::exp(row.at_label) / row.sum;
    const float log_q = kernels::log(q), log_p = row.at_label - kernels::log(row.sum);
    const float ratio = q > 0.0f ? log_p / q : -1.0f;
    return {weight * kernels::exp(o.gamma * log_q) * (1.0f - o.gamma * p * ratio), 1, 0};
  }
  const float share = o.smoothing / static_cast<float>(channels), mine = (1.0f - o.smoothing) * weight;
  const float mass = mine + share * o.weight_sum;
  if (!(mass > 0.0f)) return {mass, 0, 0};
  return {mass, mine / mass, share / mass};
}

// dlogits: softmax's Jacobian times d loss / d p of the overlap, and the pointwise term's own.
template <class T>
struct SoftmaxLossGradient {
  LossInputs<T> in;
  LossFactors factors;
  RowGroups groups;
  Elements<T> dlogits;

  struct Shared {};
  template <class Block>
  TD_D void operator()(Block& block) const {
    const RowPlace at = row_place(groups, block.index(), block.thread());
    const std::int64_t channels = at.active ? groups.channels : 0;
    const float times = at.active ? in.times(at.row) : 0.0f;
    const std::int32_t label =
        at.active ? in.checked(in.labels[at.row], times, in.shape.channels) : kIgnoredLabel;
    const SoftmaxRow row = softmax_row(block, in, at, label);
    const std::int64_t first = divide(at.row, in.shape.rows_per_sample) * groups.channels;
    const bool squared = in.options.squared;
    float dot = 0;
    for (std::int64_t c = at.channel; c < channels; c += groups.width) {
      const float p = kernels::exp(in.logits.read(at.row, c) - row.highest) / row.sum;
      dot += p * factors.slope(first + c, p, c == label, squared);
    }
    dot = lane_sum(block, dot, groups.width);
    const float weight = label >= 0 ? in.options.class_weight[label] : 0.0f;
    const Pull pull = pull_of(in.options, groups.channels, row, weight);
    for (std::int64_t c = at.channel; c < channels; c += groups.width) {
      const float p = kernels::exp(in.logits.read(at.row, c) - row.highest) / row.sum;
      const bool here = c == label;
      const float target = (here ? pull.on : 0.0f) + pull.off * in.options.class_weight[c];
      const float overlap = p * (factors.slope(first + c, p, here, squared) - dot);
      const float gradient = times * (overlap + factors.pointwise * pull.pull * (p - target));
      dlogits.write(at.row, c, gradient_of_label(label, gradient));
    }
  }
};

}  // namespace tandem::cuda

// Cross entropy, focal and overlap losses over softmax probabilities: the sums in one pass over the logits,
// and the gradient. The loss and the gradient's factors are made of the sums in
// core/backends/common/loss_terms. Sigmoid is loss_sigmoid.cpp's.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/lanes.h"
#include "core/backends/cpu/loops/planes.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

constexpr std::int32_t kIgnored = -1, kBad = -2;  // in place of a class

// What a block's rows have beside their logits.
struct RowData {
  alignas(64) std::int32_t label[kMaxBlockRows];
  alignas(64) float highest[kMaxBlockRows], sum[kMaxBlockRows];
  alignas(64) float at_label[kMaxBlockRows];  // x[label] - highest
  alignas(64) float total[kMaxBlockRows];     // sum over channels of class weight * (x - highest)
  alignas(64) float weight[kMaxBlockRows];    // class weight of the label
  alignas(64) float times[kMaxBlockRows];     // weight of the voxel
  alignas(64) float others[kMaxBlockRows];    // focal: sum of the other classes' exponentials
};

// Fills row.label, row.weight and row.times; whether a label is neither a class nor the ignored one.
bool read_labels(const LossLoop& loop, const PlaneBlock& block, RowData& row) {
  const std::int32_t* labels = loop.labels + block.row;
  const float* times = loop.voxel_weight == nullptr ? nullptr : loop.voxel_weight + block.row;
  const std::int32_t classes = static_cast<std::int32_t>(loop.rows.x.channels);
  bool bad = false;
  for (std::int64_t r = 0; r < block.count; ++r) {
    const std::int32_t label = labels[r];
    row.times[r] = times == nullptr ? 1.0f : times[r];
    const bool ignored = (loop.has_ignore_label && label == loop.ignore_label) || row.times[r] == 0.0f;
    const bool valid = label >= 0 && label < classes;
    bad |= !ignored && !valid;
    row.label[r] = ignored ? kIgnored : valid ? label : kBad;
    row.weight[r] = valid && !ignored ? loop.class_weight[label] : 0.0f;
  }
  for (std::int64_t r = block.count; r < padded(block.count); ++r) {
    row.label[r] = kIgnored;
    row.weight[r] = row.times[r] = 0;
  }
  return bad;
}

// The planes become exp(x - highest); row.sum their sum.
void exponentials(const LossLoop& loop, float* planes, std::int64_t n, RowData& row) {
  plane_maximum(loop.rows, planes, n, row.highest);
  for (std::int64_t r = 0; r < n; ++r) row.sum[r] = row.at_label[r] = row.total[r] = 0;
  const std::int32_t classes = static_cast<std::int32_t>(loop.rows.x.channels);
  for (std::int32_t c = 0; c < classes; ++c) {
    float* x = planes + c * loop.rows.block_rows;
    const float weight = loop.class_weight[c];
    for (std::int64_t r = 0; r < n; ++r) {
      const float d = x[r] - row.highest[r];
      const float e = kernels::exp(d);
      row.at_label[r] = row.label[r] == c ? d : row.at_label[r];
      row.total[r] += weight * d;
      row.sum[r] += e;
      x[r] = e;
    }
  }
}

// row.others: 1 - p of the label without cancellation, times row.sum.
void other_exponentials(const LossLoop& loop, const float* planes, std::int64_t n, RowData& row) {
  for (std::int64_t r = 0; r < n; ++r) row.others[r] = 0;
  for (std::int32_t c = 0; c < static_cast<std::int32_t>(loop.rows.x.channels); ++c) {
    const float* e = planes + c * loop.rows.block_rows;
    for (std::int64_t r = 0; r < n; ++r) row.others[r] += row.label[r] == c ? 0.0f : e[r];
  }
}

// nll[r]: the pointwise loss of each row.
void pointwise_values(const LossLoop& loop, std::int64_t n, const RowData& row, float* nll) {
  for (std::int64_t r = 0; r < n; ++r) nll[r] = kernels::log(row.sum[r]) - row.at_label[r];
  if (loop.gamma != 0) {
    const float gamma = loop.gamma;
    for (std::int64_t r = 0; r < n; ++r)
      nll[r] *= row.weight[r] * kernels::exp(gamma * kernels::log(row.others[r] / row.sum[r]));
    return;
  }
  for (std::int64_t r = 0; r < n; ++r) nll[r] = row.weight[r] == 0.0f ? 0.0f : nll[r] * row.weight[r];
  if (loop.smoothing == 0) return;
  const float share = loop.smoothing / static_cast<float>(loop.rows.x.channels), kept = 1.0f - loop.smoothing;
  const float weights = loop.weight_sum;
  for (std::int64_t r = 0; r < n; ++r)
    nll[r] = kept * nll[r] + share * (weights * kernels::log(row.sum[r]) - row.total[r]);
}

// Sums of one class over a block: intersection, prediction, ground truth.
void class_sums(const LossLoop& loop, const float* e, std::int32_t c, std::int64_t n, const RowData& row,
                double* partial) {
  const std::int64_t classes = loop.rows.x.channels;
  Vec intersection = {}, prediction = {}, truth = {};
  for (std::int64_t r = 0; r < n; r += kLanes) {
    const IntVec label = *reinterpret_cast<const LooseIntVec*>(row.label + r);
    const Vec p = load<Vec>(e + r) / load<Vec>(row.sum + r), times = load<Vec>(row.times + r);
    const Vec counted = loop.dice_squared ? p * p : p;
    prediction += label >= 0 ? times * counted : Vec{};
    intersection += label == c ? times * p : Vec{};
    truth += label == c ? times : Vec{};
  }
  partial[c] += static_cast<double>(sum_lanes(intersection));
  partial[classes + c] += static_cast<double>(sum_lanes(prediction));
  partial[2 * classes + c] += static_cast<double>(sum_lanes(truth));
}

void loss_block(const LossLoop& loop, const PlaneBlock& block) {
  const std::int64_t n = padded(block.count), classes = loop.rows.x.channels;
  double* partial = loop.partial + block.task * (3 * classes + 2);
  float* planes = block.scratch.planes;
  RowData row;
  const bool bad = read_labels(loop, block, row);
  read_planes(loop.rows, loop.rows.x, block);
  exponentials(loop, planes, n, row);
  for (std::int64_t c = 0; c < classes; ++c)
    class_sums(loop, planes + c * loop.rows.block_rows, static_cast<std::int32_t>(c), n, row, partial);
  if (loop.gamma != 0) other_exponentials(loop, planes, n, row);
  alignas(64) float nll[kMaxBlockRows];
  pointwise_values(loop, n, row, nll);
  Vec sum = {}, weight = {};
  for (std::int64_t r = 0; r < n; r += kLanes) {
    const IntVec label = *reinterpret_cast<const LooseIntVec*>(row.label + r);
    const Vec times = load<Vec>(row.times + r);
    sum += label != kIgnored ? times * load<Vec>(nll + r) : Vec{};
    weight += times * load<Vec>(row.weight + r);
  }
  partial[3 * classes] += bad ? __builtin_nan("") : static_cast<double>(sum_lanes(sum));
  partial[3 * classes + 1] += static_cast<double>(sum_lanes(weight));
}

// The pointwise gradient of a row is pull * (p - target), target = off * class weight, and on more at the
// label.
struct PullData {
  alignas(64) float pull[kMaxBlockRows], on[kMaxBlockRows], off[kMaxBlockRows];
};

void pulls(const LossLoop& loop, std::int64_t n, const RowData& row, PullData& data) {
  const float ce = loop.ce_factor;
  if (loop.gamma != 0) {
    const float gamma = loop.gamma;
    for (std::int64_t r = 0; r < n; ++r) {
      const float q = row.others[r] / row.sum[r], p = kernels::exp(row.at_label[r]) / row.sum[r];
      const float log_p = row.at_label[r] - kernels::log(row.sum[r]);
      const float ratio = q > 0.0f ? log_p / q : -1.0f;
      const float power = kernels::exp(gamma * kernels::log(q));
      data.pull[r] = ce * row.weight[r] * power * (1.0f - gamma * p * ratio);
      data.on[r] = 1;
      data.off[r] = 0;
    }
    return;
  }
  const float share = loop.smoothing / static_cast<float>(loop.rows.x.channels), kept = 1.0f - loop.smoothing;
  const float spread = share * loop.weight_sum;
  for (std::int64_t r = 0; r < n; ++r) {
    const float mine = kept * row.weight[r], mass = mine + spread;
    data.pull[r] = ce * mass;
    data.on[r] = mass > 0.0f ? mine / mass : 0.0f;
    data.off[r] = mass > 0.0f ? share / mass : 0.0f;
  }
}

// The planes e become the gradient: softmax's Jacobian times d loss / d p, plus the pointwise term's own.
void gradient_planes(const LossLoop& loop, std::int64_t sample, float* planes, std::int64_t n, RowData& row) {
  const std::int32_t classes = static_cast<std::int32_t>(loop.rows.x.channels);
  const float* prediction = loop.prediction + sample * classes;
  const float* intersection = loop.intersection + sample * classes;
  const float slope = loop.dice_squared ? 2.0f : 0.0f, constant = loop.dice_squared ? 0.0f : 1.0f;
  PullData data;
  pulls(loop, n, row, data);
  float* dot = row.total;
  for (std::int64_t r = 0; r < n; ++r) dot[r] = 0;
  for (std::int32_t c = 0; c < classes; ++c) {
    float* plane = planes + c * loop.rows.block_rows;
    const float of_prediction = prediction[c], of_intersection = intersection[c];
    for (std::int64_t r = 0; r < n; ++r) {
      const float p = plane[r] / row.sum[r];
      const float h = of_prediction * (slope * p + constant) + (row.label[r] == c ? of_intersection : 0.0f);
      dot[r] += p * h;
      plane[r] = p;
    }
  }
  for (std::int32_t c = 0; c < classes; ++c) {
    float* plane = planes + c * loop.rows.block_rows;
    const float of_prediction = prediction[c], of_intersection = intersection[c],
                weight = loop.class_weight[c];
    for (std::int64_t r = 0; r < n; ++r) {
      const float p = plane[r];
      const bool here = row.label[r] == c;
      const float h = of_prediction * (slope * p + constant) + (here ? of_intersection : 0.0f);
      const float target = (here ? data.on[r] : 0.0f) + data.off[r] * weight;
      const float gradient = row.times[r] * (p * (h - dot[r]) + data.pull[r] * (p - target));
      plane[r] = row.label[r] >= 0 ? gradient : row.label[r] == kIgnored ? 0.0f : __builtin_nanf("");
    }
  }
}

}  // namespace

void loss_sums(const LossLoop& loop) {
  const std::int64_t slots = 3 * loop.rows.x.channels + 2;
  const std::int64_t tasks = loop.rows.chunks.samples * loop.rows.chunks.per_sample;
  for (std::int64_t i = 0; i < tasks * slots; ++i) loop.partial[i] = 0;
  for_plane_blocks(loop.rows, [&](const PlaneBlock& block) { loss_block(loop, block); });
}

void loss_backward(const LossLoop& loop) {
  for_plane_blocks(loop.rows, [&](const PlaneBlock& block) {
    const std::int64_t n = padded(block.count);
    RowData row;
    read_labels(loop, block, row);
    read_planes(loop.rows, loop.rows.x, block);
    exponentials(loop, block.scratch.planes, n, row);
    if (loop.gamma != 0) other_exponentials(loop, block.scratch.planes, n, row);
    gradient_planes(loop, block.sample, block.scratch.planes, n, row);
    write_planes(loop.rows, loop.rows.y, block);
  });
}

}  // namespace tandem::TD_ISA_NAMESPACE

// Cross entropy and soft Dice over softmax probabilities: the sums in one pass over the logits, and the
// gradient. The loss and the gradient's coefficients are made of the sums in core/kernels/loss.h.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/planes.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

// What a block's rows have beside their logits. A class of -1 marks a row that is dropped.
struct RowData {
  alignas(64) std::int32_t label[kMaxBlockRows];
  alignas(64) float highest[kMaxBlockRows], sum[kMaxBlockRows];
  alignas(64) float at_label[kMaxBlockRows];  // x[label] - highest
  alignas(64) float total[kMaxBlockRows];     // sum over channels of x - highest
};

// Fills row.label; whether a label is neither a class nor the ignored one.
bool read_labels(const LossLoop& loop, std::int64_t first, std::int64_t count, RowData& row) {
  const std::int32_t* labels = loop.labels + first;
  const std::int32_t classes = static_cast<std::int32_t>(loop.rows.x.channels);
  bool bad = false;
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int32_t label = labels[r];
    const bool ignored = loop.has_ignore_label && label == loop.ignore_label;
    const bool valid = label >= 0 && label < classes;
    bad |= !ignored && !valid;
    row.label[r] = !ignored && valid ? label : -1;
  }
  for (std::int64_t r = count; r < padded(count); ++r) row.label[r] = -1;
  return bad;
}

// The planes become exp(x - highest); row.sum their sum.
void exponentials(const LossLoop& loop, float* planes, std::int64_t n, RowData& row) {
  plane_maximum(loop.rows, planes, n, row.highest);
  for (std::int64_t r = 0; r < n; ++r) row.sum[r] = row.at_label[r] = row.total[r] = 0;
  const std::int32_t classes = static_cast<std::int32_t>(loop.rows.x.channels);
  for (std::int32_t c = 0; c < classes; ++c) {
    float* x = planes + c * loop.rows.block_rows;
    for (std::int64_t r = 0; r < n; ++r) {
      const float d = x[r] - row.highest[r];
      const float e = kernels::exp(d);
      row.at_label[r] = row.label[r] == c ? d : row.at_label[r];
      row.total[r] += d;
      row.sum[r] += e;
      x[r] = e;
    }
  }
}

// Sums of one class over a block: intersection, prediction, ground truth.
void class_sums(const LossLoop& loop, const float* e, std::int32_t c, std::int64_t n, const RowData& row,
                double* partial) {
  const std::int64_t classes = loop.rows.x.channels;
  const IntVec here = IntVec{} + c, dropped = IntVec{} - 1;
  const Vec one = Vec{} + 1.0f;
  Vec intersection = {}, prediction = {}, truth = {};
  for (std::int64_t r = 0; r < n; r += kLanes) {
    const IntVec label = *reinterpret_cast<const LooseIntVec*>(row.label + r);
    const Vec p = load<Vec>(e + r) / load<Vec>(row.sum + r);
    const Vec counted = loop.dice_squared ? p * p : p;
    prediction += label != dropped ? counted : Vec{};
    intersection += label == here ? p : Vec{};
    truth += label == here ? one : Vec{};
  }
  partial[c] += static_cast<double>(sum_lanes(intersection));
  partial[classes + c] += static_cast<double>(sum_lanes(prediction));
  partial[2 * classes + c] += static_cast<double>(sum_lanes(truth));
}

void loss_block(const LossLoop& loop, double* partial, std::int64_t first, std::int64_t count) {
  const PlaneScratch scratch = plane_scratch(loop.rows);
  RowData row;
  const bool bad = read_labels(loop, first, count, row);
  read_planes(loop.rows, loop.rows.x, first, count, scratch);
  const std::int64_t n = padded(count), classes = loop.rows.x.channels;
  exponentials(loop, scratch.planes, n, row);
  for (std::int64_t c = 0; c < classes; ++c)
    class_sums(loop, scratch.planes + c * loop.rows.block_rows, static_cast<std::int32_t>(c), n, row,
               partial);
  const float share = loop.smoothing / static_cast<float>(classes), kept = 1.0f - loop.smoothing;
  alignas(64) float nll[kMaxBlockRows];
  for (std::int64_t r = 0; r < n; ++r) nll[r] = kernels::log(row.sum[r]) - row.at_label[r];
  if (loop.smoothing != 0)
    for (std::int64_t r = 0; r < n; ++r) {
      const float uniform = static_cast<float>(classes) * kernels::log(row.sum[r]) - row.total[r];
      nll[r] = kept * nll[r] + share * uniform;
    }
  Vec sum = {}, valid = {};
  const IntVec dropped = IntVec{} - 1;
  const Vec one = Vec{} + 1.0f;
  for (std::int64_t r = 0; r < n; r += kLanes) {
    const IntVec label = *reinterpret_cast<const LooseIntVec*>(row.label + r);
    sum += label != dropped ? load<Vec>(nll + r) : Vec{};
    valid += label != dropped ? one : Vec{};
  }
  partial[3 * classes] += static_cast<double>(sum_lanes(sum));
  partial[3 * classes + 1] += bad ? __builtin_nan("") : static_cast<double>(sum_lanes(valid));
}

// The planes e become the gradient: softmax's Jacobian times d loss / d p, plus cross entropy's own.
void gradient_planes(const LossLoop& loop, std::int64_t sample, float* planes, std::int64_t n, RowData& row) {
  const std::int32_t classes = static_cast<std::int32_t>(loop.rows.x.channels);
  const float* prediction = loop.prediction + sample * classes;
  const float* intersection = loop.intersection + sample * classes;
  const float slope = loop.dice_squared ? 2.0f : 0.0f, constant = loop.dice_squared ? 0.0f : 1.0f;
  const float share = loop.smoothing / static_cast<float>(classes), kept = 1.0f - loop.smoothing;
  const float ce = loop.ce_factor;
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
    const float of_prediction = prediction[c], of_intersection = intersection[c];
    for (std::int64_t r = 0; r < n; ++r) {
      const float p = plane[r];
      const bool here = row.label[r] == c;
      const float h = of_prediction * (slope * p + constant) + (here ? of_intersection : 0.0f);
      const float target = (here ? kept : 0.0f) + share;
      const float gradient = p * (h - dot[r]) + ce * (p - target);
      plane[r] = row.label[r] >= 0 ? gradient : 0.0f;
    }
  }
}

}  // namespace

void loss_sums(const LossLoop& loop) {
  const std::int64_t slots = 3 * loop.rows.x.channels + 2;
  const std::int64_t tasks = loop.rows.chunks.samples * loop.rows.chunks.per_sample;
  for (std::int64_t i = 0; i < tasks * slots; ++i) loop.partial[i] = 0;
  for_plane_blocks(loop.rows, [&](std::int64_t task, std::int64_t, std::int64_t first, std::int64_t count) {
    loss_block(loop, loop.partial + task * slots, first, count);
  });
}

void loss_backward(const LossLoop& loop) {
  for_plane_blocks(loop.rows, [&](std::int64_t, std::int64_t sample, std::int64_t first, std::int64_t count) {
    const PlaneScratch scratch = plane_scratch(loop.rows);
    RowData row;
    read_labels(loop, first, count, row);
    read_planes(loop.rows, loop.rows.x, first, count, scratch);
    const std::int64_t n = padded(count);
    exponentials(loop, scratch.planes, n, row);
    gradient_planes(loop, sample, scratch.planes, n, row);
    write_planes(loop.rows, loop.rows.y, first, count, scratch);
  });
}

}  // namespace tandem::TD_ISA_NAMESPACE

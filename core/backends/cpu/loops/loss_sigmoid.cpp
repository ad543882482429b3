// Binary cross entropy, focal and overlap losses over sigmoid probabilities, channel by channel: the sums in
// one pass over the logits, and the gradient. Softmax is loss.cpp's.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/lanes.h"
#include "core/backends/cpu/loops/planes.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

constexpr std::int32_t kIgnored = -1, kBad = -2;  // in place of a target 0 or 1

struct Targets {
  alignas(64) std::int32_t of[kMaxBlockRows];
  alignas(64) float times[kMaxBlockRows];  // weight of the voxel
  std::int64_t n;                          // rows, whole vectors
};

// Targets of channel c; whether a label is neither valid nor the ignored one.
bool read_targets(const LossLoop& loop, const PlaneBlock& block, std::int64_t c, Targets& targets) {
  const std::int64_t channels = loop.rows.x.channels, stride = loop.multi_label ? channels : 1;
  const std::int32_t* labels = loop.labels + block.row * stride + (loop.multi_label ? c : 0);
  // One channel stands for class 1 of the classes 0 and 1, as does each channel of independent labels.
  const bool binary = loop.multi_label || channels == 1;
  const std::int32_t classes = binary ? 2 : static_cast<std::int32_t>(channels);
  const std::int32_t mine = binary ? 1 : static_cast<std::int32_t>(c);
  const float* times = loop.voxel_weight == nullptr ? nullptr : loop.voxel_weight + block.row;
  bool bad = false;
  for (std::int64_t r = 0; r < block.count; ++r) {
    const std::int32_t label = labels[r * stride];
    targets.times[r] = times == nullptr ? 1.0f : times[r];
    const bool ignored = (loop.has_ignore_label && label == loop.ignore_label) || targets.times[r] == 0.0f;
    const bool valid = label >= 0 && label < classes;
    bad |= !ignored && !valid;
    targets.of[r] = ignored ? kIgnored : !valid ? kBad : label == mine ? 1 : 0;
  }
  targets.n = padded(block.count);
  for (std::int64_t r = block.count; r < targets.n; ++r) {
    targets.of[r] = kIgnored;
    targets.times[r] = 0;
  }
  return bad;
}

// p, 1 - p and their negative logarithms, none by subtraction from 1.
struct Sigmoid {
  float p, q, minus_log_p, minus_log_q;
};
inline Sigmoid sigmoid(float z) {
  const float e = kernels::exp(z > 0.0f ? -z : z), log_sum = kernels::log1p(e), inverse = 1.0f / (1.0f + e);
  const float small = e * inverse;
  return {z > 0.0f ? inverse : small, z > 0.0f ? small : inverse, (z > 0.0f ? 0.0f : -z) + log_sum,
          (z > 0.0f ? z : 0.0f) + log_sum};
}

// The plane z becomes p; value[r] the pointwise loss.
template <bool kFocal>
void pointwise_plane(const LossLoop& loop, std::int64_t c, const Targets& targets, float* plane,
                     float* value) {
  const float positive = loop.class_weight[c], negative = loop.negative_weight, gamma = loop.gamma;
  for (std::int64_t r = 0; r < targets.n; ++r) {
    const Sigmoid s = sigmoid(plane[r]);
    const bool here = targets.of[r] == 1;
    float v = here ? positive * s.minus_log_p : negative * s.minus_log_q;
    if constexpr (kFocal) v *= kernels::exp(-gamma * (here ? s.minus_log_q : s.minus_log_p));
    value[r] = v;
    plane[r] = s.p;
  }
}

void sums_block(const LossLoop& loop, const PlaneBlock& block) {
  const std::int64_t classes = loop.rows.x.channels;
  double* partial = loop.partial + block.task * (3 * classes + 2);
  read_planes(loop.rows, loop.rows.x, block);
  Targets targets;
  alignas(64) float value[kMaxBlockRows];
  for (std::int64_t c = 0; c < classes; ++c) {
    float* plane = block.scratch.planes + c * loop.rows.block_rows;
    const bool bad = read_targets(loop, block, c, targets);
    if (loop.gamma != 0)
      pointwise_plane<true>(loop, c, targets, plane, value);
    else
      pointwise_plane<false>(loop, c, targets, plane, value);
    Vec intersection = {}, prediction = {}, truth = {}, sum = {}, valid = {};
    for (std::int64_t r = 0; r < targets.n; r += kLanes) {
      const IntVec target = *reinterpret_cast<const LooseIntVec*>(targets.of + r);
      const Vec p = load<Vec>(plane + r), counted = loop.dice_squared ? p * p : p;
      const Vec times = load<Vec>(targets.times + r);
      intersection += target == 1 ? times * p : Vec{};
      prediction += target >= 0 ? times * counted : Vec{};
      truth += target == 1 ? times : Vec{};
      sum += target >= 0 ? times * load<Vec>(value + r) : Vec{};
      valid += target >= 0 ? times : Vec{};
    }
    partial[c] += static_cast<double>(sum_lanes(intersection));
    partial[classes + c] += static_cast<double>(sum_lanes(prediction));
    partial[2 * classes + c] += static_cast<double>(sum_lanes(truth));
    partial[3 * classes] += bad ? __builtin_nan("") : static_cast<double>(sum_lanes(sum));
    partial[3 * classes + 1] += static_cast<double>(sum_lanes(valid));
  }
}

// The plane z becomes the gradient: p q times d loss / d p of the overlap, plus the pointwise term's own.
template <bool kFocal>
void gradient_plane(const LossLoop& loop, std::int64_t at, std::int64_t c, const Targets& targets,
                    float* plane) {
  const float of_prediction = loop.prediction[at], of_intersection = loop.intersection[at];
  const float slope = loop.dice_squared ? 2.0f : 0.0f, constant = loop.dice_squared ? 0.0f : 1.0f;
  const float positive = loop.ce_factor * loop.class_weight[c];
  const float negative = loop.ce_factor * loop.negative_weight, gamma = loop.gamma;
  for (std::int64_t r = 0; r < targets.n; ++r) {
    const Sigmoid s = sigmoid(plane[r]);
    const bool here = targets.of[r] == 1;
    float pointwise = here ? -positive * s.q : negative * s.p;
    if constexpr (kFocal) {
      const float rise = gamma * (here ? s.p * s.minus_log_p : s.q * s.minus_log_q);
      const float power = kernels::exp(-gamma * (here ? s.minus_log_q : s.minus_log_p));
      pointwise = power * (here ? -positive * (rise + s.q) : negative * (rise + s.p));
    }
    const float h = of_prediction * (slope * s.p + constant) + (here ? of_intersection : 0.0f);
    const float gradient = targets.times[r] * (s.p * s.q * h + pointwise);
    plane[r] = targets.of[r] >= 0 ? gradient : targets.of[r] == kIgnored ? 0.0f : __builtin_nanf("");
  }
}

}  // namespace

void sigmoid_loss_sums(const LossLoop& loop) {
  const std::int64_t slots = 3 * loop.rows.x.channels + 2;
  const std::int64_t tasks = loop.rows.chunks.samples * loop.rows.chunks.per_sample;
  for (std::int64_t i = 0; i < tasks * slots; ++i) loop.partial[i] = 0;
  for_plane_blocks(loop.rows, [&](const PlaneBlock& block) { sums_block(loop, block); });
}

void sigmoid_loss_backward(const LossLoop& loop) {
  const std::int64_t channels = loop.rows.x.channels;
  for_plane_blocks(loop.rows, [&](const PlaneBlock& block) {
    read_planes(loop.rows, loop.rows.x, block);
    Targets targets;
    for (std::int64_t c = 0; c < channels; ++c) {
      float* plane = block.scratch.planes + c * loop.rows.block_rows;
      read_targets(loop, block, c, targets);
      const std::int64_t at = block.sample * channels + c;
      if (loop.gamma != 0)
        gradient_plane<true>(loop, at, c, targets, plane);
      else
        gradient_plane<false>(loop, at, c, targets, plane);
    }
    write_planes(loop.rows, loop.rows.y, block);
  });
}

}  // namespace tandem::TD_ISA_NAMESPACE

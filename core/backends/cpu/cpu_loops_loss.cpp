// Softmax, and the segmentation losses: partial sums combined in the order of their chunks; what they mean is
// core/backends/common/loss_terms.
#include <numeric>
#include <vector>

#include "core/backends/cpu/cpu_loops.h"
#include "core/backends/cpu/loop_views.h"
#include "core/backends/common/loss_terms.h"

namespace tandem {
namespace {

using loop_views::float_matrix;

// Rows of a block: its planes stay in cache. A multiple of 16.
std::int64_t block_rows(std::int64_t channels) {
  return std::clamp<std::int64_t>(4096 / std::max<std::int64_t>(1, channels) / 16 * 16, 16, 256);
}

std::unique_ptr<float[]> plane_scratch(std::int64_t channels) {
  return loop_views::scratch<float>(compute_threads() * 2 * channels * block_rows(channels));
}

SoftmaxLoop softmax_loop(const Tensor& x, std::int64_t samples, float* scratch) {
  SoftmaxLoop loop{};
  loop.threads = compute_threads();
  loop.block_rows = block_rows(x.channels());
  loop.chunks = loop_views::chunks_of(samples, x.rows(), x.channels(), loop.block_rows);
  loop.scratch = scratch;
  loop.x = float_matrix(x);
  return loop;
}

// The loop's struct with the memory that it points to.
struct LossScratch {
  LossScratch(const SegmentationLossArgs& args, const LossTensors& t)
      : planes(plane_scratch(t.logits.channels())),
        weights(args.class_weights.begin(), args.class_weights.end()) {
    weights.resize(static_cast<std::size_t>(t.logits.channels()), 1.0f);
    const bool is_sigmoid = args.activation == LossActivation::kSigmoid;
    if (is_sigmoid && args.alpha)
      for (float& weight : weights) weight *= static_cast<float>(*args.alpha);
    loop.rows = softmax_loop(t.logits, t.logits.shape().batch(), planes.get());
    loop.labels = t.labels.data<std::int32_t>();
    if (t.voxel_weights.defined()) loop.voxel_weight = t.voxel_weights.data<float>();
    loop.has_ignore_label = args.has_ignore_label;
    loop.ignore_label = args.ignore_label;
    loop.dice_squared = args.dice_squared;
    loop.multi_label = args.multi_label;
    loop.smoothing = static_cast<float>(args.label_smoothing);
    loop.gamma = static_cast<float>(args.gamma);
    loop.class_weight = weights.data();
    loop.weight_sum = std::accumulate(weights.begin(), weights.end(), 0.0f);
    loop.negative_weight = is_sigmoid && args.alpha ? static_cast<float>(1 - *args.alpha) : 1.0f;
  }
  LossScratch(const LossScratch&) = delete;
  LossScratch& operator=(const LossScratch&) = delete;

  LossLoop loop{};
  std::unique_ptr<float[]> planes;
  std::vector<float> weights;
};

}  // namespace

void CpuLoops::softmax_forward(const SoftmaxArgs& args, const Tensor& x, const Tensor& y) const {
  if (x.numel() == 0) return;
  const auto scratch = plane_scratch(x.channels());
  SoftmaxLoop loop = softmax_loop(x, 1, scratch.get());
  loop.log = args.log;
  loop.y = float_matrix(y);
  table_->softmax_forward(loop);
}

void CpuLoops::softmax_backward(const SoftmaxArgs& args, const Tensor& dy, const Tensor& y,
                                const Tensor& dx) const {
  if (y.numel() == 0) return;
  const auto scratch = plane_scratch(dx.channels());
  SoftmaxLoop loop = softmax_loop(dx, 1, scratch.get());
  loop.log = args.log;
  loop.y = float_matrix(y);
  loop.dy = float_matrix(dy);
  table_->softmax_backward(loop);
}

void CpuLoops::segmentation_loss(const SegmentationLossArgs& args, const LossTensors& t,
                                 const Tensor& loss) const {
  LossScratch scratch(args, t);
  LossLoop& loop = scratch.loop;
  const Chunks& chunks = loop.rows.chunks;
  const std::int64_t slots = 3 * t.logits.channels() + 2;
  const auto partial = loop_views::scratch<double>(loop_views::count(chunks) * slots);
  loop.partial = partial.get();
  const bool is_sigmoid = args.activation == LossActivation::kSigmoid;
  (is_sigmoid ? table_->sigmoid_loss_sums : table_->loss_sums)(loop);
  double* total = t.sums.data<double>();
  for (std::int64_t n = 0; n < chunks.samples; ++n)
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      double sum = 0;
      for (std::int64_t chunk = 0; chunk < chunks.per_sample; ++chunk)
        sum += partial[(n * chunks.per_sample + chunk) * slots + slot];
      total[n * slots + slot] = sum;
    }
  loss.data<float>()[0] = static_cast<float>(LossTerms(args, t.sums).loss());
}

void CpuLoops::segmentation_loss_backward(const SegmentationLossArgs& args, const LossTensors& t,
                                          const Tensor& seed, const Tensor& dlogits) const {
  if (dlogits.numel() == 0) return;
  LossScratch scratch(args, t);
  LossLoop& loop = scratch.loop;
  loop.rows.y = float_matrix(dlogits);
  const LossTerms terms(args, t.sums);
  const double scale = seed.data<float>()[0];
  std::vector<float> prediction, intersection;
  for (std::int64_t n = 0; n < t.logits.shape().batch(); ++n)
    for (std::int64_t c = 0; c < t.logits.channels(); ++c) {
      prediction.push_back(static_cast<float>(scale * terms.by_prediction(n, c)));
      intersection.push_back(static_cast<float>(scale * terms.by_intersection(n, c)));
    }
  loop.prediction = prediction.data();
  loop.intersection = intersection.data();
  loop.ce_factor = static_cast<float>(scale * terms.by_pointwise());
  const bool is_sigmoid = args.activation == LossActivation::kSigmoid;
  (is_sigmoid ? table_->sigmoid_loss_backward : table_->loss_backward)(loop);
}

}  // namespace tandem

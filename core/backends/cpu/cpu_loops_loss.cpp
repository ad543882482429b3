// Softmax, and cross entropy with soft Dice: the loss and its gradient's coefficients from the sums, in
// double.
#include <cmath>
#include <vector>

#include "core/backends/cpu/cpu_loops.h"
#include "core/backends/cpu/loop_views.h"

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

LossLoop loss_loop(const SegmentationLossArgs& args, const Tensor& logits, const Tensor& labels,
                   float* scratch) {
  LossLoop loop{};
  loop.rows = softmax_loop(logits, logits.shape().batch(), scratch);
  loop.labels = labels.data<std::int32_t>();
  loop.has_ignore_label = args.has_ignore_label;
  loop.ignore_label = args.ignore_label;
  loop.dice_squared = args.dice_squared;
  loop.smoothing = static_cast<float>(args.label_smoothing);
  return loop;
}

// D of one class and its derivatives by the intersection and by the prediction's sum.
struct DiceTerm {
  double value, by_intersection, by_prediction;
};

DiceTerm dice_term(double intersection, double prediction, double truth, double smooth) {
  constexpr double kFloor = 1e-8;
  const double sum = prediction + truth + smooth, numerator = 2 * intersection + smooth;
  const double denominator = sum < kFloor ? kFloor : sum;  // NaN stays
  return {numerator / denominator, 2 / denominator,
          sum < kFloor ? 0.0 : -numerator / (denominator * denominator)};
}

// The sums [N, 3 C + 2] as what enters the loss.
class LossSums {
 public:
  LossSums(const SegmentationLossArgs& args, const Tensor& sums)
      : args_(args), data_(sums.data<double>()), batch_(sums.shape()[0]), slots_(sums.shape()[1]) {}

  std::int64_t classes() const { return (slots_ - 2) / 3; }
  std::int64_t first_class() const { return args_.dice_background ? 0 : 1; }
  std::int64_t groups() const { return args_.dice_batch ? 1 : batch_; }
  // Terms of the mean of D.
  double terms() const { return static_cast<double>(groups() * (classes() - first_class())); }
  double nll() const { return over_batch(3 * classes()); }
  double valid() const { return over_batch(3 * classes() + 1); }
  DiceTerm dice(std::int64_t n, std::int64_t c) const {
    return dice_term(sum(n, c), sum(n, classes() + c), sum(n, 2 * classes() + c), args_.smooth);
  }

  double loss() const {
    double result = std::isnan(nll()) ? nll() : 0.0;
    if (args_.ce_weight != 0 && valid() > 0) result += args_.ce_weight * nll() / valid();
    if (args_.dice_weight == 0) return result;
    double mean = 0;
    for (std::int64_t n = 0; n < groups(); ++n)
      for (std::int64_t c = first_class(); c < classes(); ++c) mean += dice(n, c).value / terms();
    return result - args_.dice_weight * mean;
  }

 private:
  double over_batch(std::int64_t slot) const {
    double total = 0;
    for (std::int64_t n = 0; n < batch_; ++n) total += data_[n * slots_ + slot];
    return total;
  }
  double sum(std::int64_t n, std::int64_t slot) const {
    return args_.dice_batch ? over_batch(slot) : data_[n * slots_ + slot];
  }

  const SegmentationLossArgs& args_;
  const double* data_;
  std::int64_t batch_, slots_;
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

void CpuLoops::segmentation_loss(const SegmentationLossArgs& args, const Tensor& logits, const Tensor& labels,
                                 const Tensor& sums, const Tensor& loss) const {
  const auto scratch = plane_scratch(logits.channels());
  LossLoop loop = loss_loop(args, logits, labels, scratch.get());
  const Chunks& chunks = loop.rows.chunks;
  const std::int64_t slots = 3 * logits.channels() + 2;
  const auto partial = loop_views::scratch<double>(loop_views::count(chunks) * slots);
  loop.partial = partial.get();
  table_->loss_sums(loop);
  double* total = sums.data<double>();
  for (std::int64_t n = 0; n < chunks.samples; ++n)
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      double sum = 0;
      for (std::int64_t chunk = 0; chunk < chunks.per_sample; ++chunk)
        sum += partial[(n * chunks.per_sample + chunk) * slots + slot];
      total[n * slots + slot] = sum;
    }
  loss.data<float>()[0] = static_cast<float>(LossSums(args, sums).loss());
}

void CpuLoops::segmentation_loss_backward(const SegmentationLossArgs& args, const LossTensors& t,
                                          const Tensor& seed, const Tensor& dlogits) const {
  if (dlogits.numel() == 0) return;
  const auto scratch = plane_scratch(t.logits.channels());
  LossLoop loop = loss_loop(args, t.logits, t.labels, scratch.get());
  loop.rows.y = float_matrix(dlogits);
  const LossSums sums(args, t.sums);
  const std::int64_t batch = t.logits.shape().batch(), classes = sums.classes();
  const double scale = seed.data<float>()[0];
  std::vector<float> prediction(static_cast<std::size_t>(batch * classes)), intersection(prediction.size());
  if (args.dice_weight != 0)
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t c = sums.first_class(); c < classes; ++c) {
        const DiceTerm term = sums.dice(n, c);
        const double factor = -scale * args.dice_weight / sums.terms();
        const auto at = static_cast<std::size_t>(n * classes + c);
        prediction[at] = static_cast<float>(factor * term.by_prediction);
        intersection[at] = static_cast<float>(factor * term.by_intersection);
      }
  loop.prediction = prediction.data();
  loop.intersection = intersection.data();
  if (args.ce_weight != 0 && sums.valid() > 0)
    loop.ce_factor = static_cast<float>(scale * args.ce_weight / sums.valid());
  table_->loss_backward(loop);
}

}  // namespace tandem

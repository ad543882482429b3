// Softmax and the segmentation losses of the CUDA backend. The sums are read back: what they mean is
// core/backends/common/loss_terms, on the host.
#include <numeric>

#include "core/backends/common/loss_terms.h"
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/cuda_launch.h"

namespace tandem::cuda {
namespace {

bool is_sigmoid(const SegmentationLossArgs& args) { return args.activation == LossActivation::kSigmoid; }

std::vector<float> class_weights(const SegmentationLossArgs& args, std::int64_t channels) {
  std::vector<float> weights(args.class_weights.begin(), args.class_weights.end());
  weights.resize(static_cast<std::size_t>(channels), 1.0f);
  if (is_sigmoid(args) && args.alpha)
    for (float& weight : weights) weight *= static_cast<float>(*args.alpha);
  return weights;
}

LossShape loss_shape(const Tensor& logits) {
  const std::int64_t each = logits.rows() / logits.shape().batch();
  return {each, ceil_divide(each, kLossRows), logits.channels(), width_of(logits.channels())};
}

LossOptions loss_options(const SegmentationLossArgs& args, const std::vector<float>& weights,
                         const Scratch<float>& on_device) {
  LossOptions o{};
  o.has_ignore_label = args.has_ignore_label;
  o.ignore_label = args.ignore_label;
  o.multi_label = args.multi_label;
  o.squared = args.dice_squared;
  o.smoothing = static_cast<float>(args.label_smoothing);
  o.gamma = static_cast<float>(args.gamma);
  o.weight_sum = std::accumulate(weights.begin(), weights.end(), 0.0f);
  o.negative_weight = is_sigmoid(args) && args.alpha ? static_cast<float>(1 - *args.alpha) : 1.0f;
  o.class_weight = on_device.data();
  return o;
}

template <class T>
LossInputs<T> loss_inputs(const LossOptions& options, const LossTensors& t) {
  return {loss_shape(t.logits), options, elements<T>(t.logits), t.labels.data<std::int32_t>(),
          data_or_null<float>(t.voxel_weights)};
}

}  // namespace

void CudaBackend::softmax_forward(const SoftmaxArgs& args, const Tensor& x, const Tensor& y) {
  if (x.numel() == 0) return;
  const RowGroups groups = row_groups(x, width_of(x.channels()));
  with_type_or_mixed({x, y}, [&]<class T>() {
    launch(api_, blocks(groups), Softmax<T>{groups, args.log, elements<T>(x), elements<T>(y)});
  });
}

void CudaBackend::softmax_backward(const SoftmaxArgs& args, const Tensor& dy, const Tensor& y,
                                   const Tensor& dx) {
  if (dx.numel() == 0) return;
  const RowGroups groups = row_groups(dx, width_of(dx.channels()));
  with_type_or_mixed({dy, y, dx}, [&]<class T>() {
    launch(api_, blocks(groups),
           SoftmaxGradient<T>{groups, args.log, elements<T>(dy), elements<T>(y), elements<T>(dx)});
  });
}

void CudaBackend::segmentation_loss(const SegmentationLossArgs& args, const LossTensors& t,
                                    const Tensor& loss) {
  const std::vector<float> weights = class_weights(args, t.logits.channels());
  const Scratch<float> device_weights(device_, weights);
  const LossOptions options = loss_options(args, weights, device_weights);
  const LossShape shape = loss_shape(t.logits);
  const std::int64_t batch = t.logits.shape().batch(), slots = 3 * shape.channels + 2;
  const Scratch<double> partial(device_, batch * shape.chunks * slots);
  with_type(t.logits, [&]<class T>() {
    const LossInputs<T> in = loss_inputs<T>(options, t);
    if (is_sigmoid(args))
      launch(api_, batch * shape.chunks, SigmoidLossSums<T>{in, partial.data()});
    else
      launch(api_, batch * shape.chunks, SoftmaxLossSums<T>{in, partial.data()});
  });
  launch(api_, batch * slots,
         SumChunks{slots, shape.chunks, partial.data(), t.sums.data<double>(), nullptr, nullptr, slots});
  const auto value = static_cast<float>(LossTerms(args, t.sums.to_device(kCpuDevice)).loss());
  require(api_, api_.copy_from_host(loss.data<float>(), &value, sizeof value), "copy of a loss");
}

void CudaBackend::segmentation_loss_backward(const SegmentationLossArgs& args, const LossTensors& t,
                                             const Tensor& seed, const Tensor& dlogits) {
  if (dlogits.numel() == 0) return;
  const std::vector<float> weights = class_weights(args, t.logits.channels());
  const Scratch<float> device_weights(device_, weights);
  const LossOptions options = loss_options(args, weights, device_weights);
  const LossTerms terms(args, t.sums.to_device(kCpuDevice));
  const double scale = seed.to_values()[0];
  std::vector<float> prediction, intersection;
  for (std::int64_t n = 0; n < t.logits.shape().batch(); ++n)
    for (std::int64_t c = 0; c < t.logits.channels(); ++c) {
      prediction.push_back(static_cast<float>(scale * terms.by_prediction(n, c)));
      intersection.push_back(static_cast<float>(scale * terms.by_intersection(n, c)));
    }
  const Scratch<float> of_prediction(device_, prediction), of_intersection(device_, intersection);
  const LossFactors factors{of_prediction.data(), of_intersection.data(),
                            static_cast<float>(scale * terms.by_pointwise())};
  with_type_or_mixed({t.logits, dlogits}, [&]<class T>() {
    if constexpr (std::is_same_v<T, Mixed>) {
      check_internal(false, "a gradient of another dtype than the logits");
    } else {
      const LossInputs<T> in = loss_inputs<T>(options, t);
      if (is_sigmoid(args))
        return launch(api_, SigmoidLossGradient<T>{dlogits.numel(), in, factors, elements<T>(dlogits)});
      const RowGroups groups = row_groups(dlogits, in.shape.width);
      launch(api_, blocks(groups), SoftmaxLossGradient<T>{in, factors, groups, elements<T>(dlogits)});
    }
  });
}

}  // namespace tandem::cuda

// Normalisation of the CUDA backend: which kernels, over which chunks, with which partial sums.
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/cuda_launch.h"

namespace tandem::cuda {
namespace {

// The cut of x's matrix that the shape of the statistics describes.
struct NormShape {
  NormShape(const NormArgs& args, const Tensor& x, const NormTensors& t)
      : runs(t.mean.shape()[0]),
        groups(t.mean.shape()[1]),
        per_row(!args.fixed && groups == 1 && runs == x.rows()),
        activation{args.activation, {.a = args.slope}} {
    of = {x.rows() / runs, groups, x.channels() / groups};
  }
  std::int64_t runs, groups;
  bool per_row;  // a mean and a variance per row
  ActivationArgs activation;
  NormGroups of;
};

// Calls body.operator()<T, kFused>().
template <class Body>
void with_activation(const Tensor& x, Activation activation, const Body& body) {
  with_type(x, [&]<class T>() {
    if (activation == Activation::kNone)
      body.template operator()<T, kNoActivation>();
    else if (activation == Activation::kRelu)
      body.template operator()<T, kFusedRelu>();
    else if (activation == Activation::kLeakyRelu)
      body.template operator()<T, kFusedLeakyRelu>();
    else
      body.template operator()<T, kAnyActivation>();
  });
}

template <class T>
NormGradientInputs<T> gradient_inputs(const NormShape& shape, const Tensor& dy, const Tensor& x,
                                      const NormTensors& t) {
  return {shape.of,
          shape.activation,
          elements<T>(x),
          elements<T>(dy),
          t.mean.data<float>(),
          t.inv_std.data<float>(),
          t.scale.data<float>(),
          t.shift.data<float>()};
}

}  // namespace

void CudaBackend::norm_forward(const NormArgs& args, const Tensor& x, const NormTensors& t, const Tensor& y) {
  if (x.numel() == 0) return;
  const NormShape shape(args, x, t);
  const float *scale = t.scale.data<float>(), *shift = t.shift.data<float>();
  float *mean = t.mean.data<float>(), *inv_std = t.inv_std.data<float>();
  float* const variance = data_or_null<float>(t.variance);
  if (shape.per_row) {
    const RowGroups rows = row_groups(x, kWarpThreads);
    return with_activation(x, args.activation, [&]<class T, int kFused>() {
      launch(api_, blocks(rows),
             LayerNorm<T, kFused>{rows, shape.activation, args.eps, elements<T>(x), elements<T>(y), scale,
                                  shift, mean, inv_std, variance});
    });
  }
  const std::int64_t statistics = shape.runs * shape.groups;
  const Scratch<float> lost(device_, args.fixed ? 0 : statistics);
  if (args.fixed) {
    launch(api_, NormFixed{statistics, args.eps, variance, inv_std});
  } else {
    const ColumnChunks chunks = column_chunks(shape.runs, x.rows(), x.channels());
    const Scratch<double> partial(device_, pieces(chunks) * 2 * chunks.channels);
    with_type(x, [&]<class T>() {
      launch(api_, blocks(chunks), NormMoments<T>{chunks, elements<T>(x), partial.data()});
    });
    launch(api_, statistics,
           NormFinish{chunks, shape.groups, args.eps, partial.data(), mean, lost.data(), inv_std, variance});
  }
  with_activation(x, args.activation, [&]<class T, int kFused>() {
    launch(api_, NormApply<T, kFused>{x.numel(), x.channels(), shape.of, shape.activation, elements<T>(x),
                                      elements<T>(y), mean, args.fixed ? nullptr : lost.data(), inv_std,
                                      scale, shift});
  });
}

void CudaBackend::norm_backward(const NormArgs& args, const Tensor& dy, const Tensor& x, const NormTensors& t,
                                const Tensor& dx) {
  if (x.numel() == 0) return;
  const NormShape shape(args, x, t);
  const std::int64_t channels = x.channels();
  // The parameters' gradients need no runs where dx's own kernel sums each row.
  const ColumnChunks chunks = column_chunks(shape.per_row ? 1 : shape.runs, x.rows(), channels);
  const Scratch<double> partial(device_, pieces(chunks) * 2 * channels);
  with_activation(x, args.activation, [&]<class T, int kFused>() {
    launch(api_, blocks(chunks),
           NormGradientSums<T, kFused>{chunks, gradient_inputs<T>(shape, dy, x, t), partial.data()});
  });
  launch(api_, 2 * channels,
         SumChunks{2 * channels, pieces(chunks), partial.data(), nullptr, t.dshift.data<float>(),
                   t.dscale.data<float>(), channels});
  if (shape.per_row) {
    const RowGroups rows = row_groups(x, kWarpThreads);
    return with_activation(x, args.activation, [&]<class T, int kFused>() {
      launch(api_, blocks(rows),
             LayerNormGradient<T, kFused>{rows, gradient_inputs<T>(shape, dy, x, t), elements<T>(dx)});
    });
  }
  const std::int64_t statistics = args.fixed ? 0 : shape.runs * shape.groups;
  const Scratch<float> mean_h(device_, statistics), mean_hx(device_, statistics);
  launch(api_, statistics,
         NormGradientFinish{chunks, shape.groups, partial.data(), t.scale.data<float>(), mean_h.data(),
                            mean_hx.data()});
  with_activation(x, args.activation, [&]<class T, int kFused>() {
    launch(api_, NormGradient<T, kFused>{x.numel(), channels, gradient_inputs<T>(shape, dy, x, t),
                                         elements<T>(dx), mean_h.data(), mean_hx.data()});
  });
}

}  // namespace tandem::cuda

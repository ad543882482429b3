// Vendor calls, maps, row sums and dropout of the CUDA backend.
#include "core/backends/cuda/cuda_backend.h"

#include "core/backends/cuda/cuda_launch.h"

namespace tandem::cuda {
namespace {

DeviceMatrix matrix_of(const Tensor& t) {
  require_float(t);
  return {t.raw(), t.dtype(), t.rows(), t.channels(), t.channel_pitch()};
}

ConvCall conv_call(ConvPass pass, const ConvGeometry& g) {
  ConvCall call;
  call.pass = pass;
  call.spatial_rank = g.spatial_rank;
  call.batch = g.batch;
  call.in_channels = g.in_channels;
  call.out_channels = g.out_channels;
  call.groups = g.groups;
  for (std::size_t a = 0; a < 3; ++a) {
    call.in[a] = g.in[a];
    call.out[a] = g.out[a];
    call.kernel[a] = g.kernel[a];
    call.stride[a] = g.stride[a];
    call.dilation[a] = g.dilation[a];
    call.padding[a] = g.padding[a];
  }
  return call;
}

// Whether rows lie densely one after another.
bool is_long(const Tensor& t) { return t.is_packed(); }

// Without a per-channel operand, packed tensors are rows of one channel.
bool is_flat(std::span<const Tensor> inputs, const Tensor& out) {
  if (!is_long(out)) return false;
  return std::ranges::all_of(inputs, [&](const Tensor& input) {
    return input.shape() == out.shape() ? is_long(input) : input.numel() == 1;
  });
}

template <class T>
MapInput<T> map_input(const Tensor& input, const Tensor& out, bool flat) {
  require_float(input);
  MapInput<T> result;
  result.data = input.raw();
  result.pitch = flat ? 1 : input.channel_pitch();
  result.dtype = input.dtype();
  result.broadcast = input.shape() == out.shape() ? Broadcast::kFull
                     : input.numel() == 1         ? Broadcast::kSingle
                                                  : Broadcast::kPerChannel;
  return result;
}

// Whether out and the inputs of its shape have one dtype.
bool has_one_dtype(std::span<const Tensor> inputs, const Tensor& out) {
  return std::ranges::all_of(inputs, [&](const Tensor& input) {
    return input.shape() != out.shape() || input.dtype() == out.dtype();
  });
}

template <class F, class T>
void launch_map(DeviceApi& api, const MapArgs& args, std::span<const Tensor> inputs, const Tensor& out) {
  check_internal(inputs.size() == F::kArity, "a map with another number of inputs than its functor");
  const bool flat = is_flat(inputs, out);
  Map<F, T> loop{};
  loop.count = out.numel();
  loop.channels = flat ? 1 : out.channels();
  loop.accumulate = args.accumulate;
  loop.params = args.params;
  for (std::size_t k = 0; k < inputs.size(); ++k) loop.in[k] = map_input<T>(inputs[k], out, flat);
  loop.out = elements<T>(out);
  if (flat) loop.out.pitch = 1;
  launch(api, loop);
}

}  // namespace

void CudaBackend::gemm(const GemmArgs& args, const Tensor& a, const Tensor& b, const Tensor& c) {
  GemmCall call;
  call.a = matrix_of(a);
  call.b = matrix_of(b);
  call.c = matrix_of(c);
  call.transpose_a = args.transpose_a;
  call.transpose_b = args.transpose_b;
  call.accumulate = args.accumulate;
  require(api_, api_.gemm(call), "gemm");
}

void CudaBackend::conv_forward(const ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& bias,
                               const Tensor& y) {
  ConvCall call = conv_call(ConvPass::kForward, g);
  call.x = matrix_of(x);
  call.w = matrix_of(w);
  call.y = matrix_of(y);
  call.bias = data_or_null<float>(bias);
  require(api_, api_.conv(call), "convolution, forward");
}

void CudaBackend::conv_backward_data(const ConvGeometry& g, const Tensor& dy, const Tensor& w,
                                     const Tensor& dx) {
  ConvCall call = conv_call(ConvPass::kBackwardData, g);
  call.x = matrix_of(dx);
  call.w = matrix_of(w);
  call.y = matrix_of(dy);
  require(api_, api_.conv(call), "convolution, data gradient");
}

void CudaBackend::conv_backward_weights(const ConvGeometry& g, const Tensor& x, const Tensor& dy,
                                        const Tensor& dw) {
  ConvCall call = conv_call(ConvPass::kBackwardWeights, g);
  call.x = matrix_of(x);
  call.w = matrix_of(dw);
  call.y = matrix_of(dy);
  require(api_, api_.conv(call), "convolution, weight gradient");
}

void CudaBackend::map(const MapArgs& args, std::span<const Tensor> inputs, const Tensor& out) {
  if (out.numel() == 0) return;
  require_float(out);
  visit_map_kernel(args.kernel, [&]<class F>() {
    if (!has_one_dtype(inputs, out)) return launch_map<F, Mixed>(api_, args, inputs, out);
    with_type(out, [&]<class T>() { launch_map<F, T>(api_, args, inputs, out); });
  });
}

void CudaBackend::reduce_rows(const Tensor& x, const Tensor& y, const Tensor& out) {
  if (x.numel() == 0) return;
  const ColumnChunks chunks = column_chunks(1, x.rows(), x.channels());
  const Scratch<double> partial(device_, pieces(chunks) * chunks.channels);
  with_type_or_mixed({x, y}, [&]<class T>() {
    launch(api_, blocks(chunks), ColumnSums<T>{chunks, elements<T>(x), elements<T>(y), partial.data()});
  });
  launch(api_, chunks.channels,
         SumChunks{chunks.channels, pieces(chunks), partial.data(), nullptr, out.data<float>(), nullptr,
                   chunks.channels});
}

void CudaBackend::dropout(const DropoutArgs& args, const Tensor& x, const Tensor& y) {
  if (y.numel() == 0) return;
  with_type(x, [&]<class T>() {
    Dropout<T> loop{};
    loop.elements = x.numel();
    loop.count = ceil_divide(loop.elements, 4);
    for (std::size_t i = 0; i < 2; ++i) loop.key[i] = args.key[i];
    for (std::size_t i = 0; i < 4; ++i) loop.counter[i] = args.counter[i];
    loop.threshold = args.threshold;
    loop.scale = static_cast<float>(args.scale);
    loop.x = x.data<T>();
    loop.y = y.data<T>();
    launch(api_, loop);
  });
}

}  // namespace tandem::cuda

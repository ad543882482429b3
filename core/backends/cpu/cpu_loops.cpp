// Maps, reductions, layout, pooling and the optimizer: tensors unpacked for the level's loops, partial sums
// combined in the order of their chunks.
#include "core/backends/cpu/cpu_loops.h"

#include "core/backends/common/optimizer_parts.h"
#include "core/backends/cpu/loop_views.h"

namespace tandem {
namespace {

using loop_views::chunks_of, loop_views::float_matrix, loop_views::matrix_of, loop_views::slice;

constexpr std::int64_t kMapChannels = 2048;  // map.cpp's block

OperandKind operand_kind(const Tensor& input, const Tensor& out) {
  if (input.shape() == out.shape()) return OperandKind::kFull;
  return input.numel() == 1 ? OperandKind::kSingle : OperandKind::kPerChannel;
}

// Without a per-channel operand, packed tensors are one long column.
void flatten(MapLoop& loop) {
  const auto is_long = [](const Matrix& m) { return m.pitch == m.channels || m.rows <= 1; };
  if (!is_long(loop.out)) return;
  for (int k = 0; k < kMapInputs; ++k) {
    if (loop.in[k].data == nullptr) continue;
    if (loop.kind[k] == OperandKind::kPerChannel) return;
    if (loop.kind[k] == OperandKind::kFull && !is_long(loop.in[k])) return;
  }
  const auto lengthen = [](Matrix& m) {
    m.rows *= m.channels;
    m.channels = m.pitch = 1;
  };
  lengthen(loop.out);
  for (int k = 0; k < kMapInputs; ++k)
    if (loop.in[k].data != nullptr && loop.kind[k] == OperandKind::kFull) lengthen(loop.in[k]);
}

}  // namespace

const CpuLoops& cpu_loops(CpuIsa isa) {
  static const CpuLoops v2(isa_v2::kLoops), v3(isa_v3::kLoops), v4(isa_v4::kLoops);
  if (isa == CpuIsa::kV2) return v2;
  return isa == CpuIsa::kV3 ? v3 : v4;
}

void CpuLoops::map(const MapArgs& args, std::span<const Tensor> inputs, const Tensor& out) const {
  if (out.numel() == 0) return;
  MapLoop loop{args.kernel, args.params, args.accumulate, compute_threads(), {}, float_matrix(out), {}, {}};
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    loop.in[k] = float_matrix(inputs[k]);
    loop.kind[k] = operand_kind(inputs[k], out);
  }
  flatten(loop);
  loop_views::for_channels(loop.out.channels, kMapChannels, [&](std::int64_t first, std::int64_t count) {
    MapLoop part = loop;
    part.out = slice(loop.out, first, count);
    for (int k = 0; k < kMapInputs; ++k)
      if (loop.kind[k] != OperandKind::kSingle) part.in[k] = slice(loop.in[k], first, count);
    part.chunks = chunks_of(1, loop.out.rows, count);
    table_->map(part);
  });
}

void CpuLoops::reduce_rows(const Tensor& x, const Tensor& y, const Tensor& out) const {
  if (x.numel() == 0) return;
  const Matrix mx = float_matrix(x), my = float_matrix(y);
  loop_views::for_channels(mx.channels, loop_views::kNarrowChannels, [&](std::int64_t first, std::int64_t n) {
    const Chunks chunks = chunks_of(1, mx.rows, n);
    const auto partial = loop_views::scratch<double>(chunks.per_sample * n);
    table_->reduce_rows({compute_threads(), chunks, slice(mx, first, n), slice(my, first, n), partial.get()});
    for (std::int64_t c = 0; c < n; ++c) {
      double sum = 0;
      for (std::int64_t chunk = 0; chunk < chunks.per_sample; ++chunk) sum += partial[chunk * n + c];
      float& total = out.data<float>()[first + c];
      total = static_cast<float>(static_cast<double>(total) + sum);
    }
  });
}

void CpuLoops::reorder(const Tensor& x, const Tensor& y, bool to_logical) const {
  if (x.numel() == 0) return;
  const Shape& shape = to_logical ? x.shape() : y.shape();  // of the channels-last side
  const std::int64_t batch = shape.batch(), channels = shape.channels();
  const std::int64_t voxels = shape.numel() / (batch * channels);
  const auto bytes = static_cast<std::int64_t>(size_of(x.dtype()));
  table_->reorder({compute_threads(), x.raw(), y.raw(), bytes, batch, to_logical ? voxels : channels,
                   to_logical ? channels : voxels});
}

void CpuLoops::depth_to_space(const ConvGeometry& g, const Tensor& blocks, const Tensor& bias,
                              const Tensor& volume, bool inverse) const {
  if (volume.numel() == 0) return;
  table_->depth_to_space({compute_threads(),
                          inverse,
                          float_matrix(blocks),
                          float_matrix(volume),
                          bias.defined() ? bias.data<float>() : nullptr,
                          volume.shape().batch(),
                          {g.in[0], g.in[1], g.in[2]},
                          {g.stride[0], g.stride[1], g.stride[2]}});
}

namespace {

PoolLoop pool_loop(const PoolArgs& args, const Tensor& x, const Tensor& y, const Tensor& indices) {
  const ConvGeometry& g = args.geometry;
  PoolLoop loop{};
  loop.threads = compute_threads();
  loop.max = args.max;
  loop.count_padding = args.count_padding;
  loop.batch = x.shape().batch();
  loop.channels = x.channels();
  for (int axis = 0; axis < 3; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    loop.in[axis] = g.in[a];
    loop.out[axis] = g.out[a];
    loop.kernel[axis] = g.kernel[a];
    loop.stride[axis] = g.stride[a];
    loop.padding[axis] = g.padding[a];
  }
  loop.x = float_matrix(x);
  loop.y = float_matrix(y);
  loop.indices = matrix_of(indices);
  return loop;
}

}  // namespace

void CpuLoops::pool_forward(const PoolArgs& args, const Tensor& x, const Tensor& y,
                            const Tensor& indices) const {
  if (y.numel() > 0) table_->pool_forward(pool_loop(args, x, y, indices));
}

void CpuLoops::pool_backward(const PoolArgs& args, const Tensor& dy, const Tensor& indices,
                             const Tensor& dx) const {
  if (dx.numel() > 0) table_->pool_backward(pool_loop(args, dx, dy, indices));
}

void CpuLoops::gradient_check(const Tensor& gradient, const StepState& state, GradientCheck& result) const {
  const std::int64_t n = gradient.numel();
  if (n == 0) return;
  const Chunks chunks = chunks_of(1, n, 1);
  const auto counts = loop_views::scratch<std::int64_t>(chunks.per_sample);
  const auto squares = loop_views::scratch<double>(chunks.per_sample);
  table_->gradient_check({compute_threads(), chunks, gradient.data<float>(),
                          state.scale < 1 ? state.inverse : 1.0f, counts.get(), squares.get()});
  for (std::int64_t chunk = 0; chunk < chunks.per_sample; ++chunk) {
    result.nonfinite += counts[chunk];
    result.sum_of_squares += squares[chunk];
  }
}

namespace {

float* floats_of(const Tensor& tensor) { return tensor.defined() ? tensor.data<float>() : nullptr; }

}  // namespace

void CpuLoops::optimizer_step(const OptimizerArgs& args, StepState& state) const {
  if (state.event != StepEvent::kGood || args.master.numel() == 0) return;
  const std::vector<OptimizerLoopPart> parts = optimizer_parts<OptimizerLoopPart>(args, state);
  OptimizerLoop loop{};
  loop.threads = compute_threads();
  loop.kind = args.kind;
  loop.centered = args.constants.centered;
  loop.parts = parts.data();
  loop.inverse = state.scale == 1 ? 1.0f : state.inverse;
  loop.clip = state.clip;
  loop.clip_value = static_cast<float>(args.constants.clip_value);
  loop.n = args.master.numel();
  loop.gradient = args.gradient.data<float>();
  loop.master = args.master.data<float>();
  loop.moment1 = floats_of(args.moment1);
  loop.moment2 = floats_of(args.moment2);
  loop.moment3 = floats_of(args.moment3);
  if (args.copy.defined()) {
    loop.copy = args.copy.raw();
    loop.copy_dtype = args.copy.dtype();
  }
  loop.ema = floats_of(args.ema);
  loop.ema_rate = static_cast<float>(kernels::ema_rate(args.constants, state.applied));
  if (table_->optimizer_step(loop)) state.weight_overflow = 1;
}

void CpuLoops::convert_to_float(const void* from, DType dtype, float* to, std::int64_t n) const {
  table_->widen(from, dtype, to, n);
}

void CpuLoops::convert_from_float(const float* from, void* to, DType dtype, std::int64_t n) const {
  table_->narrow(from, to, dtype, n);
}

}  // namespace tandem

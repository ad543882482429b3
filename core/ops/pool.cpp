// Pooling and its gradients. Max pooling saves the winners' positions, average pooling nothing.
#include "core/ops/pool.h"

#include <limits>

#include "core/base/error.h"
#include "core/ops/op_checks.h"
#include "core/ops/shape_ops.h"

namespace tandem {
namespace {

PoolArgs pool_args(std::string_view op, const Var& x, const PoolOptions& options, bool max) {
  require_volume(op, {"input", x});
  const int rank = x.shape().spatial_rank();
  ConvGeometry g{.spatial_rank = rank,
                 .batch = x.shape()[0],
                 .in_channels = x.shape()[1],
                 .out_channels = x.shape()[1],
                 .in = x.shape().spatial()};
  g.kernel = checked_option(op, "window", options.window, rank, 1);
  g.stride = checked_option(op, "stride", options.stride.value_or(options.window), rank, 1);
  g.padding = checked_option(op, "padding", options.padding, rank, 0);
  for (std::size_t i = 0; i < 3; ++i) {
    if (2 * g.padding[i] > g.kernel[i])
      fail(ErrorKind::kShape, "[{}] padding: got {}, expected at most half of the window {}", op,
           spatial_text(g.padding, rank), spatial_text(g.kernel, rank));
    const std::int64_t room = g.in[i] + 2 * g.padding[i] - g.kernel[i];
    if (room < 0)
      fail(ErrorKind::kShape,
           "[{}] the window does not fit the padded input: input {}, window {}, padding {}", op,
           to_string(x.shape()), spatial_text(g.kernel, rank), spatial_text(g.padding, rank));
    g.out[i] = room / g.stride[i] + 1;
  }
  if (x.shape().spatial_numel() > std::numeric_limits<std::int32_t>::max())
    fail(ErrorKind::kShape, "[{}] voxels of the input: got {}, expected at most {}", op, to_string(x.shape()),
         std::numeric_limits<std::int32_t>::max());
  return {.max = max, .count_padding = options.count_padding, .geometry = g};
}

Var pool(std::string_view op, const Var& x, const PoolArgs& args) {
  const ConvGeometry& g = args.geometry;
  Tape& tape = x.tape();
  const Shape shape = volume_shape(g.batch, g.out_channels, g.out, g.spatial_rank);
  const Tensor y(shape, x.dtype(), x.value().device());
  const Tensor indices = args.max ? Tensor(shape, DType::kI32, x.value().device()) : Tensor();
  if (y.numel() > 0) tape.backend().pool_forward(args, x.value(), y, indices);
  return tape.record(op, y, {x}, [&tape, x = x.gradient_only(), args, indices](const Tensor& dy) {
    const Tensor dx(x.shape(), dy.dtype(), dy.device());
    if (dx.numel() > 0) tape.backend().pool_backward(args, dy, indices, dx);
    x.accumulate(dx);
  });
}

}  // namespace

Var max_pool(const Var& x, const PoolOptions& options) {
  return pool("max_pool", x, pool_args("max_pool", x, options, true));
}

Var avg_pool(const Var& x, const PoolOptions& options) {
  return pool("avg_pool", x, pool_args("avg_pool", x, options, false));
}

Var global_avg_pool(const Var& x) {
  require_volume("global_avg_pool", {"input", x});
  Tape& tape = x.tape();
  const Shape vector{x.shape()[1]}, shape{x.shape()[0], x.shape()[1]};
  const Device device = x.value().device();
  const MapArgs scale{.kernel = MapKernel::kScale,
                      .params = {.a = 1 / static_cast<double>(x.shape().spatial_numel())}};
  const Tensor sums = Tensor::zeros(shape, accumulation_dtype(x.dtype()), device);
  const Tensor y(shape, x.dtype(), device);
  if (y.numel() > 0) {
    for (std::int64_t n = 0; n < shape[0]; ++n)
      tape.backend().reduce_rows(x.value().slice_batch(n, 1), {}, sums.slice_batch(n, 1).with_shape(vector));
    tape.backend().map(scale, {{sums}}, y);
  }
  return tape.record(
      "global_avg_pool", y, {x}, [&tape, x = x.gradient_only(), scale, vector](const Tensor& dy) {
        const Tensor dx(x.shape(), x.dtype(), dy.device());
        for (std::int64_t n = 0; dx.numel() > 0 && n < x.shape()[0]; ++n)
          tape.backend().map(scale, {{dy.slice_batch(n, 1).with_shape(vector)}}, dx.slice_batch(n, 1));
        x.accumulate(dx);
      });
}

Var global_max_pool(const Var& x) {
  require_volume("global_max_pool", {"input", x});
  return flatten(
      pool("global_max_pool", x, pool_args("global_max_pool", x, {.window = x.shape().spatial()}, true)));
}

}  // namespace tandem

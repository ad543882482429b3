// Normalisation with a fused activation, and its gradient. Saved: x, mean, inv_std (the activation's argument
// is recomputed).
#include "core/ops/norm.h"

#include "core/base/error.h"
#include "core/ops/op_checks.h"

namespace tandem {
namespace {

// The tensor that a kernel adds a parameter's gradient to, when the parameter needs none.
void with_sink(const Var& parameter, const std::function<void(const Tensor& sink)>& use) {
  if (parameter.requires_grad()) return parameter.add_to_gradient(use);
  use(Tensor::zeros(parameter.shape(), parameter.dtype(), parameter.tape().context().device,
                    MemoryCategory::kWorkspace));
}

// [N, C] or [N, C, spatial], with a channel and a voxel.
void require_channels(std::string_view op, const Var& x) {
  require_float(op, {"input", x});
  if (x.shape().rank() < 2 || x.shape().rank() > 5)
    fail(ErrorKind::kShape, "[{}] axes of the input: got {}, expected [N, C] or [N, C, spatial]", op,
         to_string(x.shape()));
  if (x.shape()[1] == 0 || x.shape().spatial_numel() == 0)
    fail(ErrorKind::kShape, "[{}] channels and voxels of the input: got {}, expected at least one", op,
         to_string(x.shape()));
}

struct NormOperands {
  std::string_view op;
  const Var &x, &scale, &shift;
};

// Normalises with statistics of shape [runs, groups]; `fixed` ones are given, else `t` receives them.
Var normalize(const NormOperands& o, const Shape& statistics, const NormOptions& options, NormTensors& t) {
  const Var &x = o.x, &scale = o.scale, &shift = o.shift;
  require_kept_vector(o.op, {"scale", scale}, x.shape()[1], {"input", x});
  require_kept_vector(o.op, {"shift", shift}, x.shape()[1], {"input", x});
  if (!(options.eps > 0)) fail(ErrorKind::kShape, "[{}] eps: got {}, expected > 0", o.op, options.eps);
  Tape& tape = x.tape();
  const NormArgs args{.eps = options.eps,
                      .activation = options.activation,
                      .slope = options.slope,
                      .fixed = t.mean.defined()};
  const DType dtype = accumulation_dtype(x.dtype());
  const Device device = x.value().device();
  t.scale = scale.value();
  t.shift = shift.value();
  if (!args.fixed) t.mean = Tensor(statistics, dtype, device);
  t.inv_std = Tensor(statistics, dtype, device);
  const Tensor y(x.shape(), x.dtype(), device);
  if (y.numel() > 0) tape.backend().norm_forward(args, x.value(), t, y);
  return tape.record(o.op, y, {x, scale, shift},
                     [&tape, x, scale = scale.gradient_only(), shift = shift.gradient_only(), args,
                      saved = t](const Tensor& dy) {
                       const Tensor dx(x.shape(), x.dtype(), dy.device());
                       with_sink(scale, [&](const Tensor& dscale) {
                         with_sink(shift, [&](const Tensor& dshift) {
                           NormTensors all = saved;
                           all.dscale = dscale;
                           all.dshift = dshift;
                           if (dx.numel() > 0) tape.backend().norm_backward(args, dy, x.value(), all, dx);
                         });
                       });
                       x.accumulate(dx);
                     });
}

}  // namespace

Var instance_norm(const Var& x, const Var& scale, const Var& shift, const NormOptions& options) {
  require_volume("instance_norm", {"input", x});
  NormTensors t;
  return normalize({"instance_norm", x, scale, shift}, {x.shape()[0], x.shape()[1]}, options, t);
}

Var group_norm(const Var& x, const Var& scale, const Var& shift, std::int64_t groups,
               const NormOptions& options) {
  require_channels("group_norm", x);
  if (groups < 1 || x.shape()[1] % groups != 0)
    fail(ErrorKind::kShape, "[group_norm] groups: got {}, expected a divisor of {} for input {}", groups,
         x.shape()[1], to_string(x.shape()));
  NormTensors t;
  return normalize({"group_norm", x, scale, shift}, {x.shape()[0], groups}, options, t);
}

Var layer_norm(const Var& x, const Var& scale, const Var& shift, const NormOptions& options) {
  require_channels("layer_norm", x);
  NormTensors t;
  return normalize({"layer_norm", x, scale, shift}, {x.value().rows(), 1}, options, t);
}

Var batch_norm(const Var& x, const Var& scale, const Var& shift, const NormOptions& options,
               BatchMoments* moments) {
  require_channels("batch_norm", x);
  const std::int64_t count = x.value().rows();
  if (count == 1)
    throw Error(
        ErrorKind::kShape,
        fmt::format("[batch_norm] values per channel: got one in {}, expected at least two in training",
                    to_string(x.shape())),
        "Use a larger batch or patch, or norm: instance.");
  NormTensors t;
  if (moments != nullptr && count > 0)
    t.variance = Tensor(Shape{1, x.shape()[1]}, accumulation_dtype(x.dtype()), x.value().device());
  const Var y = normalize({"batch_norm", x, scale, shift}, {1, x.shape()[1]}, options, t);
  if (moments != nullptr) {
    const Shape vector{x.shape()[1]};
    *moments = {count > 0 ? t.mean.with_shape(vector) : Tensor(),
                count > 0 ? t.variance.with_shape(vector) : Tensor(), count};
  }
  return y;
}

Var batch_norm_eval(const Var& x, const Var& scale, const Var& shift, const FixedMoments& moments,
                    const NormOptions& options) {
  require_channels("batch_norm_eval", x);
  const std::int64_t channels = x.shape()[1];
  Tape& tape = x.tape();
  require_kept_vector("batch_norm_eval", {"mean", tape.constant(moments.mean)}, channels, {"input", x});
  require_kept_vector("batch_norm_eval", {"variance", tape.constant(moments.variance)}, channels,
                      {"input", x});
  // The running statistics may change before the backward pass reads them.
  NormTensors t{.mean = moments.mean.clone().with_shape({1, channels}),
                .variance = moments.variance.with_shape({1, channels})};
  return normalize({"batch_norm_eval", x, scale, shift}, {1, channels}, options, t);
}

}  // namespace tandem

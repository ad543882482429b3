// Instance normalisation with a fused activation, and its gradient. Saved: x, mean, inv_std (the activation's
// argument is recomputed).
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

}  // namespace

Var instance_norm(const Var& x, const Var& scale, const Var& shift, const InstanceNormOptions& options) {
  require_volume("instance_norm", {"input", x});
  require_kept_vector("instance_norm", {"scale", scale}, x.shape()[1], {"input", x});
  require_kept_vector("instance_norm", {"shift", shift}, x.shape()[1], {"input", x});
  if (!(options.eps > 0)) fail(ErrorKind::kShape, "[instance_norm] eps: got {}, expected > 0", options.eps);
  Tape& tape = x.tape();
  const NormArgs args{.eps = options.eps, .activation = options.activation, .slope = options.slope};
  const DType statistic = accumulation_dtype(x.dtype());
  const Shape per_instance{x.shape()[0], x.shape()[1]};
  const Device device = x.value().device();
  const NormTensors saved{.scale = scale.value(),
                          .shift = shift.value(),
                          .mean = Tensor(per_instance, statistic, device),
                          .inv_std = Tensor(per_instance, statistic, device)};
  const Tensor y(x.shape(), x.dtype(), device);
  if (y.numel() > 0) tape.backend().norm_forward(args, x.value(), saved, y);
  return tape.record("instance_norm", y, {x, scale, shift},
                     [&tape, x, scale = scale.gradient_only(), shift = shift.gradient_only(), args,
                      saved](const Tensor& dy) {
                       const Tensor dx(x.shape(), x.dtype(), dy.device());
                       with_sink(scale, [&](const Tensor& dscale) {
                         with_sink(shift, [&](const Tensor& dshift) {
                           NormTensors t = saved;
                           t.dscale = dscale;
                           t.dshift = dshift;
                           if (dx.numel() > 0) tape.backend().norm_backward(args, dy, x.value(), t, dx);
                         });
                       });
                       x.accumulate(dx);
                     });
}

}  // namespace tandem

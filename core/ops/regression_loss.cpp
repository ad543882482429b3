// Errors of two tensors: an elementwise map to FP32 and its mean.
#include "core/ops/regression_loss.h"

#include <cmath>

#include "core/base/error.h"
#include "core/ops/op_checks.h"

namespace tandem {
namespace {

// Sum over all elements of a packed tensor, [1].
Tensor sum_of(Tape& tape, const Tensor& x) {
  const Tensor total = Tensor::zeros(Shape{1}, accumulation_dtype(x.dtype()), x.device());
  tape.backend().reduce_rows(x.with_shape(Shape{x.numel(), 1}), {}, total);
  return total;
}

// Mean of error(x, target); slope is its derivative by x, minus that by target.
Var mean_error(std::string_view op, const Var& x, const Var& target, const MapArgs& error,
               const MapArgs& slope) {
  require_float(op, {"input", x});
  require_float(op, {"target", target});
  require_same_shape(op, {"input", x}, {"target", target});
  require_same_dtype(op, {"input", x}, {"target", target});
  const std::int64_t n = x.shape().numel();
  if (n == 0)
    fail(ErrorKind::kShape, "[{}] nothing to average: got {}, expected at least one element", op,
         to_string(x.shape()));
  Tape& tape = x.tape();
  const DType wide = accumulation_dtype(x.dtype());
  const Tensor each(x.shape(), wide, x.value().device(), MemoryCategory::kWorkspace);
  tape.backend().map(error, {{x.value(), target.value()}}, each);
  const Tensor loss(Shape{1}, wide, each.device());
  const double share = 1.0 / static_cast<double>(n);
  tape.backend().map({.kernel = MapKernel::kScale, .params = {.a = share}}, {{sum_of(tape, each)}}, loss);
  return tape.record(
      op, loss, {x, target},
      [&tape, x = x.gradient_only(), target = target.gradient_only(), a = x.value(), b = target.value(),
       slope, share](const Tensor& seed) {
        const Tensor scale(Shape{1}, seed.dtype(), seed.device());
        const Tensor each(a.shape(), seed.dtype(), seed.device(), MemoryCategory::kWorkspace);
        const auto flow = [&](const Var& to, double sign) {
          if (!to.requires_grad()) return;
          tape.backend().map({.kernel = MapKernel::kScale, .params = {.a = sign}}, {{seed}}, scale);
          const Tensor gradient(a.shape(), a.dtype(), seed.device());
          tape.backend().map({.kernel = MapKernel::kMul}, {{each, scale}}, gradient);
          to.accumulate(gradient);
        };
        tape.backend().map(slope, {{a, b}}, each);
        // Not the seed's share first: it may be subnormal, and lose bits.
        tape.backend().map({.kernel = MapKernel::kScale, .params = {.a = share}}, {{each}}, each);
        flow(x, 1);
        flow(target, -1);
      });
}

}  // namespace

Var mse_loss(const Var& x, const Var& target) {
  return mean_error("mse_loss", x, target, {.kernel = MapKernel::kSquaredError},
                    {.kernel = MapKernel::kSquaredErrorGrad});
}

Var l1_loss(const Var& x, const Var& target) {
  return mean_error("l1_loss", x, target, {.kernel = MapKernel::kAbsoluteError},
                    {.kernel = MapKernel::kAbsoluteErrorGrad});
}

Var smooth_l1_loss(const Var& x, const Var& target, double beta) {
  if (!(beta > 0 && std::isfinite(beta)))
    fail(ErrorKind::kShape, "[smooth_l1_loss] beta: got {}, expected a finite number > 0", beta);
  return mean_error("smooth_l1_loss", x, target, {.kernel = MapKernel::kSmoothError, .params = {.a = beta}},
                    {.kernel = MapKernel::kSmoothErrorGrad, .params = {.a = beta}});
}

}  // namespace tandem

// Sum and mean: one column of all elements through the backend's row sums.
#include "core/ops/reduce.h"

#include "core/base/error.h"
#include "core/ops/op_checks.h"

namespace tandem {
namespace {

// factor times the sum of all elements.
Var scaled_sum(std::string_view op, const Var& x, double factor) {
  Tape& tape = x.tape();
  const Tensor total = Tensor::zeros(Shape{1}, accumulation_dtype(x.dtype()), x.value().device(),
                                     MemoryCategory::kActivations);
  tape.backend().reduce_rows(x.value().with_shape(Shape{x.value().numel(), 1}), {}, total);
  const MapArgs scale{.kernel = MapKernel::kScale, .params = {.a = factor}};
  tape.backend().map(scale, {{total}}, total);
  return tape.record(op, total, {x}, [&tape, x = x.gradient_only(), scale](const Tensor& dy) {
    const Tensor dx(x.shape(), x.dtype(), dy.device());
    tape.backend().map(scale, {{dy}}, dx);
    x.accumulate(dx);
  });
}

}  // namespace

Var sum(const Var& x) {
  require_float("sum", {"input", x});
  return scaled_sum("sum", x, 1);
}

Var mean(const Var& x) {
  require_float("mean", {"input", x});
  if (x.shape().numel() == 0)
    fail(ErrorKind::kShape, "[mean] nothing to average: got {}, expected at least one element",
         to_string(x.shape()));
  return scaled_sum("mean", x, 1 / static_cast<double>(x.shape().numel()));
}

}  // namespace tandem

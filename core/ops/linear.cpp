// Matrix products and their gradients: each gradient is a product of the same kind.
#include "core/ops/linear.h"

#include "core/base/error.h"
#include "core/ops/op_checks.h"

namespace tandem {
namespace {

// c (+)= op(a) op(b); zeros where the sum is empty. Nothing to do for an empty c.
void product(Tape& tape, const GemmArgs& args, const Tensor& a, const Tensor& b, const Tensor& c) {
  if (c.numel() == 0) return;
  if (a.numel() > 0)
    tape.backend().gemm(args, a, b, c);
  else if (!args.accumulate)
    c.set_zero();
}

void require_matrix(std::string_view op, const Operand& x, std::string_view expected) {
  require_float(op, x);
  if (x.var.shape().rank() != 2)
    fail(ErrorKind::kShape, "[{}] axes of the {}: got {}, expected {}", op, x.name, to_string(x.var.shape()),
         expected);
}

}  // namespace

Var matmul(const Var& a, const Var& b) {
  require_matrix("matmul", {"a", a}, "[M, K]");
  require_matrix("matmul", {"b", b}, "[K, N]");
  require_same_dtype("matmul", {"a", a}, {"b", b});
  if (a.shape()[1] != b.shape()[0])
    fail(ErrorKind::kShape, "[matmul] inner sizes differ: a {} has {} columns, b {} has {} rows",
         to_string(a.shape()), a.shape()[1], to_string(b.shape()), b.shape()[0]);
  Tape& tape = a.tape();
  const Tensor c(Shape{a.shape()[0], b.shape()[1]}, a.dtype(), a.value().device());
  product(tape, {}, a.value(), b.value(), c);
  // Each gradient needs the other factor.
  const Tensor for_b = b.requires_grad() ? a.value() : Tensor(),
               for_a = a.requires_grad() ? b.value() : Tensor();
  return tape.record("matmul", c, {a, b},
                     [&tape, a = a.gradient_only(), b = b.gradient_only(), for_a, for_b](const Tensor& dc) {
                       a.add_to_gradient([&](const Tensor& da) {
                         product(tape, {.transpose_b = true, .accumulate = true}, dc, for_a, da);
                       });
                       b.add_to_gradient([&](const Tensor& db) {
                         product(tape, {.transpose_a = true, .accumulate = true}, for_b, dc, db);
                       });
                     });
}

Var linear(const Var& x, const Var& w, const Var& bias) {
  require_matrix("linear", {"input", x}, "[N, I]");
  require_matrix("linear", {"weight", w}, "[O, I]");
  require_same_dtype("linear", {"input", x}, {"weight", w});
  if (x.shape()[1] != w.shape()[1])
    fail(ErrorKind::kShape,
         "[linear] input features do not match the weight: input {} has {}, weight {} expects {}",
         to_string(x.shape()), x.shape()[1], to_string(w.shape()), w.shape()[1]);
  if (bias.defined()) require_kept_vector("linear", {"bias", bias}, w.shape()[0], {"weight", w});
  Tape& tape = x.tape();
  const Tensor y(Shape{x.shape()[0], w.shape()[0]}, x.dtype(), x.value().device());
  if (bias.defined()) {
    // The product stays in FP32 until the bias is added: one rounding.
    const Tensor sum(y.shape(), accumulation_dtype(y.dtype()), y.device(), MemoryCategory::kWorkspace);
    product(tape, {.transpose_b = true}, x.value(), w.value(), sum);
    tape.backend().map({.kernel = MapKernel::kAdd}, {{sum, bias.value()}}, y);
  } else {
    product(tape, {.transpose_b = true}, x.value(), w.value(), y);
  }
  const Tensor for_w = w.requires_grad() ? x.value() : Tensor(),
               for_x = x.requires_grad() ? w.value() : Tensor();
  return tape.record(
      "linear", y, {x, w, bias},
      [&tape, x = x.gradient_only(), w = w.gradient_only(), bias = bias.gradient_only(), for_x,
       for_w](const Tensor& dy) {
        bias.add_to_gradient([&](const Tensor& db) { tape.backend().reduce_rows(dy, {}, db); });
        w.add_to_gradient([&](const Tensor& dw) {
          product(tape, {.transpose_a = true, .accumulate = true}, dy, for_w, dw);
        });
        if (!x.requires_grad()) return;
        const Tensor dx(x.shape(), dy.dtype(), dy.device());
        product(tape, {}, dy, for_x, dx);
        x.accumulate(dx);
      });
}

}  // namespace tandem

// Elementwise ops and their gradients.
#include "core/ops/elementwise.h"

#include "core/base/error.h"
#include "core/ops/op_checks.h"

namespace tandem {
namespace {

// f(inputs...) in a new tensor of `like`'s shape and dtype.
Tensor map_like(Tape& tape, const MapArgs& args, std::initializer_list<Tensor> inputs, const Tensor& like) {
  const Tensor out(like.shape(), like.dtype(), like.device());
  tape.backend().map(args, std::span(inputs.begin(), inputs.size()), out);
  return out;
}

// y = f(x) whose gradient is g(dy, y): for activations that keep the sign of x, so that y can be saved in its
// place (it is the next op's input anyway).
Var sign_keeping(std::string_view op, const Var& x, const MapArgs& f, const MapArgs& g) {
  require_float(op, {"input", x});
  Tape& tape = x.tape();
  const Tensor y = map_like(tape, f, {x.value()}, x.value());
  return tape.record(op, y, {x}, [&tape, x = x.gradient_only(), y, g](const Tensor& dy) {
    x.accumulate(map_like(tape, g, {dy, y}, y));
  });
}

// y = f(x) whose gradient is g(dy, x).
Var smooth(std::string_view op, const Var& x, const MapArgs& f, const MapArgs& g) {
  require_float(op, {"input", x});
  Tape& tape = x.tape();
  return tape.record(op, map_like(tape, f, {x.value()}, x.value()), {x},
                     [&tape, x = x.gradient_only(), saved = x.value(), g](const Tensor& dy) {
                       x.accumulate(map_like(tape, g, {dy, saved}, saved));
                     });
}

}  // namespace

Var relu(const Var& x) {
  return sign_keeping("relu", x, {.kernel = MapKernel::kRelu}, {.kernel = MapKernel::kReluGrad});
}

Var leaky_relu(const Var& x, double slope) {
  if (!(slope >= 0 && slope < 1e6))
    fail(ErrorKind::kShape, "[leaky_relu] slope: got {}, expected 0 <= slope < 1e6", slope);
  return sign_keeping("leaky_relu", x, {.kernel = MapKernel::kLeakyRelu, .params = {.a = slope}},
                      {.kernel = MapKernel::kLeakyReluGrad, .params = {.a = slope}});
}

Var prelu(const Var& x, const Var& a) {
  require_float("prelu", {"input", x});
  require_kept_vector("prelu", {"slope", a}, a.shape().numel() == 1 ? 1 : x.shape().channels(), {"input", x});
  Tape& tape = x.tape();
  const Tensor y = map_like(tape, {.kernel = MapKernel::kPrelu}, {x.value(), a.value()}, x.value());
  return tape.record(
      "prelu", y, {x, a}, [&tape, x = x.gradient_only(), a, saved = x.value()](const Tensor& dy) {
        a.add_to_gradient([&](const Tensor& sink) {
          const Tensor below = map_like(tape, {.kernel = MapKernel::kNegativePart}, {saved}, dy);
          const bool single = sink.numel() == 1;
          const Shape column{dy.numel(), 1};
          tape.backend().reduce_rows(single ? below.with_shape(column) : below,
                                     single ? dy.with_shape(column) : dy, sink);
        });
        if (x.requires_grad())
          x.accumulate(map_like(tape, {.kernel = MapKernel::kPreluGrad}, {dy, saved, a.value()}, dy));
      });
}

Var elu(const Var& x, double alpha) {
  if (!(alpha > 0 && alpha < 1e6))
    fail(ErrorKind::kShape, "[elu] alpha: got {}, expected 0 < alpha < 1e6", alpha);
  return smooth("elu", x, {.kernel = MapKernel::kElu, .params = {.a = alpha}},
                {.kernel = MapKernel::kEluGrad, .params = {.a = alpha}});
}

Var gelu(const Var& x) {
  return smooth("gelu", x, {.kernel = MapKernel::kGelu}, {.kernel = MapKernel::kGeluGrad});
}

Var gelu_tanh(const Var& x) {
  return smooth("gelu_tanh", x, {.kernel = MapKernel::kGeluTanh}, {.kernel = MapKernel::kGeluTanhGrad});
}

Var silu(const Var& x) {
  return smooth("silu", x, {.kernel = MapKernel::kSilu}, {.kernel = MapKernel::kSiluGrad});
}

Var sigmoid(const Var& x) {
  return smooth("sigmoid", x, {.kernel = MapKernel::kSigmoid}, {.kernel = MapKernel::kSigmoidGrad});
}

Var tanh(const Var& x) {
  return smooth("tanh", x, {.kernel = MapKernel::kTanh}, {.kernel = MapKernel::kTanhGrad});
}

Var softplus(const Var& x) {
  return smooth("softplus", x, {.kernel = MapKernel::kSoftplus}, {.kernel = MapKernel::kSoftplusGrad});
}

Var add(const Var& x, const Var& y) {
  require_float("add", {"x", x});
  require_float("add", {"y", y});
  require_same_shape("add", {"x", x}, {"y", y});
  require_same_dtype("add", {"x", x}, {"y", y});
  Tape& tape = x.tape();
  const Tensor z = map_like(tape, {.kernel = MapKernel::kAdd}, {x.value(), y.value()}, x.value());
  return tape.record("add", z, {x, y}, [x = x.gradient_only(), y = y.gradient_only()](const Tensor& dz) {
    x.accumulate(dz);
    y.accumulate(dz);
  });
}

Var mul(const Var& x, const Var& y) {
  require_float("mul", {"x", x});
  require_float("mul", {"y", y});
  require_same_shape("mul", {"x", x}, {"y", y});
  require_same_dtype("mul", {"x", x}, {"y", y});
  Tape& tape = x.tape();
  const MapArgs product{.kernel = MapKernel::kMul};
  const Tensor z = map_like(tape, product, {x.value(), y.value()}, x.value());
  // Each gradient needs the other factor.
  const Tensor for_y = y.requires_grad() ? x.value() : Tensor(),
               for_x = x.requires_grad() ? y.value() : Tensor();
  return tape.record(
      "mul", z, {x, y},
      [&tape, x = x.gradient_only(), y = y.gradient_only(), for_x, for_y, product](const Tensor& dz) {
        if (x.requires_grad()) x.accumulate(map_like(tape, product, {dz, for_x}, dz));
        if (y.requires_grad()) y.accumulate(map_like(tape, product, {dz, for_y}, dz));
      });
}

Var bias(const Var& x, const Var& b) {
  require_float("bias", {"input", x});
  require_kept_vector("bias", {"bias", b}, x.shape().channels(), {"input", x});
  Tape& tape = x.tape();
  const Tensor y = map_like(tape, {.kernel = MapKernel::kAdd}, {x.value(), b.value()}, x.value());
  return tape.record(
      "bias", y, {x, b}, [&tape, x = x.gradient_only(), b = b.gradient_only()](const Tensor& dy) {
        b.add_to_gradient([&](const Tensor& sink) { tape.backend().reduce_rows(dy, {}, sink); });
        x.accumulate(dy);
      });
}

Var cast(const Var& x, DType dtype) {
  require_float("cast", {"input", x});
  if (!is_floating(dtype))
    fail(ErrorKind::kShape, "[cast] target dtype: got {}, expected a float dtype", name(dtype));
  if (dtype == x.dtype()) return x;
  Tape& tape = x.tape();
  const MapArgs copy{.kernel = MapKernel::kCopy};
  const Tensor y(x.shape(), dtype, x.value().device());
  tape.backend().map(copy, {{x.value()}}, y);
  return tape.record("cast", y, {x}, [&tape, x = x.gradient_only(), copy](const Tensor& dy) {
    const Tensor dx(x.shape(), x.dtype(), dy.device());
    tape.backend().map(copy, {{dy}}, dx);
    x.accumulate(dx);
  });
}

}  // namespace tandem

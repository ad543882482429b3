// Ops that move values.
#include "core/ops/shape_ops.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/ops/op_checks.h"

namespace tandem {
namespace {

void require_joinable(std::span<const Var> inputs) {
  if (inputs.empty()) fail(ErrorKind::kShape, "[concat] inputs: got none, expected at least one");
  const Var& first = inputs.front();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string operand = fmt::format("input {}", i);
    const Var& x = inputs[i];
    require_float("concat", {operand, x});
    if (x.shape().rank() < 2)
      fail(ErrorKind::kShape, "[concat] axes of {}: got {}, expected [N, C, spatial]", operand,
           to_string(x.shape()));
    if (x.shape().rank() != first.shape().rank() || x.shape().with(1, 0) != first.shape().with(1, 0))
      fail(ErrorKind::kShape, "[concat] shapes differ beyond the channels: input 0 {}, {} {}",
           to_string(first.shape()), operand, to_string(x.shape()));
    require_same_dtype("concat", {"input 0", first}, {operand, x});
  }
}

// Whether channels-last storage is the logical order as well.
bool stored_logically(const Shape& shape) {
  return shape.rank() <= 2 || shape.channels() == 1 || shape.spatial_numel() == 1 || shape.numel() == 0;
}

// x's values in logical order under another shape: a view where both shapes are stored in logical order.
Tensor reshaped(Backend& backend, const Tensor& x, const Shape& shape) {
  Tensor logical = x;
  if (!stored_logically(x.shape())) {
    logical = Tensor(Shape{x.numel()}, x.dtype(), x.device());
    backend.reorder(x, logical, true);
  }
  if (stored_logically(shape)) return logical.with_shape(shape);
  const Tensor y(shape, x.dtype(), x.device());
  backend.reorder(logical, y, false);
  return y;
}

Shape shape_from_sizes(const Shape& input, std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> known(sizes.begin(), sizes.end());
  const auto text = [&] { return fmt::format("[{}]", fmt::join(sizes, ", ")); };
  const auto unknown = std::ranges::find(known, -1);
  if (std::ranges::count(known, -1) > 1 ||
      std::ranges::any_of(known, [](std::int64_t size) { return size < -1; }))
    fail(ErrorKind::kShape, "[reshape] sizes: got {}, expected sizes >= 0 and at most one -1", text());
  if (unknown != known.end()) {
    *unknown = 1;
    const std::int64_t rest = Shape(known).numel();
    *unknown = rest > 0 ? input.numel() / rest : 0;
  }
  const Shape shape(known);
  if (shape.numel() != input.numel())
    fail(ErrorKind::kShape, "[reshape] elements: got {} for input {} of {} elements", text(),
         to_string(input), input.numel());
  return shape;
}

Var reshape_to(std::string_view op, const Var& x, const Shape& shape) {
  require_float(op, {"input", x});
  Tape& tape = x.tape();
  return tape.record(op, reshaped(tape.backend(), x.value(), shape), {x},
                     [&tape, x = x.gradient_only()](const Tensor& dy) {
                       x.accumulate(reshaped(tape.backend(), dy, x.shape()));
                     });
}

}  // namespace

Var concat(std::span<const Var> inputs) {
  require_joinable(inputs);
  Tape& tape = inputs.front().tape();
  std::int64_t channels = 0;
  for (const Var& x : inputs) channels += x.shape()[1];
  const Tensor& first = inputs.front().value();
  const Tensor y(first.shape().with(1, channels), first.dtype(), first.device());
  const MapArgs copy{.kernel = MapKernel::kCopy};
  std::int64_t begin = 0;
  std::vector<Var> targets;
  for (const Var& x : inputs) {
    if (x.value().numel() > 0) tape.backend().map(copy, {{x.value()}}, y.slice_channels(begin, x.shape()[1]));
    begin += x.shape()[1];
    targets.push_back(x.gradient_only());
  }
  return tape.record("concat", y, inputs, [&tape, targets, copy](const Tensor& dy) {
    std::int64_t from = 0;
    for (const Var& x : targets) {
      const Tensor part = dy.slice_channels(from, x.shape()[1]);
      from += x.shape()[1];
      if (!x.requires_grad()) continue;
      const Tensor dx(x.shape(), dy.dtype(), dy.device());
      if (dx.numel() > 0) tape.backend().map(copy, {{part}}, dx);
      x.accumulate(dx);
    }
  });
}

Var reshape(const Var& x, std::span<const std::int64_t> sizes) {
  return reshape_to("reshape", x, shape_from_sizes(x.shape(), sizes));
}

Var flatten(const Var& x) {
  if (x.shape().rank() < 2)
    fail(ErrorKind::kShape, "[flatten] axes of the input: got {}, expected [N, ...]", to_string(x.shape()));
  std::int64_t features = 1;
  for (int axis = 1; axis < x.shape().rank(); ++axis) features *= x.shape()[axis];
  return reshape_to("flatten", x, Shape{x.shape()[0], features});
}

}  // namespace tandem

// Dropout and its gradient: the same kernel on dy.
#include "core/ops/dropout.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/ops/op_checks.h"

namespace tandem {

Var dropout(const Var& x, double p) {
  require_float("dropout", {"input", x});
  if (!(p >= 0 && p < 1)) fail(ErrorKind::kShape, "[dropout] p: got {}, expected 0 <= p < 1", p);
  Tape& tape = x.tape();
  if (!tape.context().training || p == 0) return x;
  const RandomStream stream(tape.context().seed, RandomPurpose::kDropout, tape.context().draw,
                            tape.next_random_op());
  const DropoutArgs args{.key = stream.key(),
                         .counter = stream.counter(),
                         .threshold = static_cast<std::uint32_t>(std::min(p * 0x1p32, 0x1p32 - 1)),
                         .scale = 1 / (1 - p)};
  const Tensor y(x.shape(), x.dtype(), x.value().device());
  tape.backend().dropout(args, x.value(), y);
  return tape.record("dropout", y, {x}, [&tape, x = x.gradient_only(), args](const Tensor& dy) {
    const Tensor dx(dy.shape(), dy.dtype(), dy.device());
    tape.backend().dropout(args, dy, dx);
    x.accumulate(dx);
  });
}

}  // namespace tandem

// Tables of the taps of each axis, which a backend applies.
#include "core/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/ops/op_checks.h"

namespace tandem {
namespace {

// As PyTorch computes positions, in FP32 but for kNearestExact: a size ratio that is no power of two may
// round across an integer.
ResizeAxis axis_table(std::int64_t in, std::int64_t out, ResizeMode mode) {
  const auto count = static_cast<std::size_t>(out), sources = static_cast<std::size_t>(in);
  ResizeAxis axis{.low = std::vector<std::int32_t>(count),
                  .high = std::vector<std::int32_t>(count),
                  .weight = std::vector<float>(count),
                  .begin = std::vector<std::int32_t>(sources, static_cast<std::int32_t>(out)),
                  .end = std::vector<std::int32_t>(sources, 0)};
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  for (std::size_t o = 0; o < count; ++o) {
    const float at = static_cast<float>(o);
    float source = mode == ResizeMode::kNearest ? scale * at : scale * (at + 0.5f);
    if (mode == ResizeMode::kLinear) source = std::max(source - 0.5f, 0.0f);
    const auto low = std::min(static_cast<std::int64_t>(source), in - 1);
    const bool is_between = mode == ResizeMode::kLinear && low + 1 < in;
    axis.low[o] = static_cast<std::int32_t>(low);
    axis.high[o] = static_cast<std::int32_t>(is_between ? low + 1 : low);
    axis.weight[o] = is_between ? std::clamp(source - static_cast<float>(low), 0.0f, 1.0f) : 0.0f;
    for (const std::int32_t source_index : {axis.low[o], axis.high[o]}) {
      const auto i = static_cast<std::size_t>(source_index);
      axis.begin[i] = std::min(axis.begin[i], static_cast<std::int32_t>(o));
      axis.end[i] = std::max(axis.end[i], static_cast<std::int32_t>(o) + 1);
    }
  }
  for (std::size_t i = 0; i < sources; ++i) axis.begin[i] = std::min(axis.begin[i], axis.end[i]);
  return axis;
}

}  // namespace

Var resize(const Var& x, const std::array<std::int64_t, 3>& size, ResizeMode mode) {
  require_volume("resize", {"input", x});
  const int rank = x.shape().spatial_rank();
  const Triple out = checked_option("resize", "size", size, rank, 1);
  const Triple in = x.shape().spatial();
  const auto axes = std::make_shared<std::array<ResizeAxis, 3>>();
  for (std::size_t a = 0; a < 3; ++a) (*axes)[a] = axis_table(in[a], out[a], mode);
  Tape& tape = x.tape();
  const Shape shape = volume_shape(x.shape()[0], x.shape()[1], out, rank);
  const Tensor y(shape, x.dtype(), x.value().device());
  tape.backend().resize({.axes = axes}, x.value(), y);
  return tape.record("resize", y, {x}, [&tape, x = x.gradient_only(), axes](const Tensor& dy) {
    const Tensor dx(x.shape(), x.dtype(), dy.device());
    tape.backend().resize({.axes = axes, .adjoint = true}, dy, dx);
    x.accumulate(dx);
  });
}

}  // namespace tandem

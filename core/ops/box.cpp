// Crop, pad and transpose: boxes moved between strides.
#include "core/ops/box.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/ops/op_checks.h"

namespace tandem {
namespace {

using Strides = std::array<std::int64_t, Shape::kMaxRank>;

// Elements between neighbours along each logical axis of a packed tensor.
Strides strides_of(const Shape& shape) {
  Strides strides{};
  std::int64_t step = 1;
  const auto give = [&](int axis) {
    strides[static_cast<std::size_t>(axis)] = step;
    step *= shape[axis];
  };
  if (shape.rank() > 1) give(1);  // channels are innermost
  for (int axis = shape.rank(); axis-- > 2;) give(axis);
  if (shape.rank() > 0) give(0);
  return strides;
}

// The part of `whole` that begins at voxel `begin` and has `part`'s shape, to and from a packed tensor.
MoveArgs box_args(const Shape& whole, const Shape& part, const Triple& begin) {
  MoveArgs args{.rank = whole.rank(), .from_stride = strides_of(whole), .to_stride = strides_of(part)};
  for (int axis = 0; axis < whole.rank(); ++axis) args.size[static_cast<std::size_t>(axis)] = part[axis];
  for (int i = 0; i < whole.spatial_rank(); ++i)
    args.from_offset += begin[static_cast<std::size_t>(3 - whole.spatial_rank() + i)] *
                        args.from_stride[static_cast<std::size_t>(2 + i)];
  return args;
}

// The box of `whole` as a tensor.
Tensor cut(Backend& backend, const Tensor& whole, const Shape& part, const Triple& begin) {
  const Tensor y(part, whole.dtype(), whole.device());
  backend.move(box_args(whole.shape(), part, begin), whole, y);
  return y;
}

// `part` inside zeros of `whole`'s shape.
Tensor paste(Backend& backend, const Tensor& part, const Shape& whole, const Triple& begin) {
  const Tensor y(whole, part.dtype(), part.device());
  y.set_zero();
  MoveArgs args = box_args(whole, part.shape(), begin);
  std::swap(args.from_stride, args.to_stride);
  std::swap(args.from_offset, args.to_offset);
  backend.move(args, part, y);
  return y;
}

// Axis i of the result is axis order[i] of x.
Tensor permuted(Backend& backend, const Tensor& x, std::span<const int> order) {
  std::vector<std::int64_t> sizes;
  for (const int axis : order) sizes.push_back(x.shape()[axis]);
  const Shape shape(sizes);
  const Tensor y(shape, x.dtype(), x.device());
  const Strides from = strides_of(x.shape());
  MoveArgs args{.rank = shape.rank(), .to_stride = strides_of(shape)};
  for (std::size_t i = 0; i < order.size(); ++i) {
    args.size[i] = sizes[i];
    args.from_stride[i] = from[static_cast<std::size_t>(order[i])];
  }
  backend.move(args, x, y);
  return y;
}

}  // namespace

Var crop(const Var& x, const std::array<std::int64_t, 3>& begin, const std::array<std::int64_t, 3>& size) {
  require_volume("crop", {"input", x});
  const int rank = x.shape().spatial_rank();
  const Triple from = checked_option("crop", "begin", begin, rank, 0);
  const Triple extent = checked_option("crop", "size", size, rank, 1);
  const Triple in = x.shape().spatial();
  for (std::size_t a = 0; a < 3; ++a)
    if (from[a] + extent[a] > in[a])
      fail(ErrorKind::kShape, "[crop] the box leaves the input: got begin {} and size {}, input {}",
           spatial_text(from, rank), spatial_text(extent, rank), to_string(x.shape()));
  Tape& tape = x.tape();
  const Shape shape = volume_shape(x.shape()[0], x.shape()[1], extent, rank);
  return tape.record("crop", cut(tape.backend(), x.value(), shape, from), {x},
                     [&tape, x = x.gradient_only(), from](const Tensor& dy) {
                       x.accumulate(paste(tape.backend(), dy, x.shape(), from));
                     });
}

Var pad(const Var& x, const std::array<std::int64_t, 3>& before, const std::array<std::int64_t, 3>& after) {
  require_volume("pad", {"input", x});
  const int rank = x.shape().spatial_rank();
  const Triple low = checked_option("pad", "before", before, rank, 0);
  const Triple high = checked_option("pad", "after", after, rank, 0);
  Triple extent = x.shape().spatial();
  for (std::size_t a = 0; a < 3; ++a) extent[a] += low[a] + high[a];
  Tape& tape = x.tape();
  const Shape shape = volume_shape(x.shape()[0], x.shape()[1], extent, rank);
  return tape.record("pad", paste(tape.backend(), x.value(), shape, low), {x},
                     [&tape, x = x.gradient_only(), low](const Tensor& dy) {
                       x.accumulate(cut(tape.backend(), dy, x.shape(), low));
                     });
}

Var transpose(const Var& x, std::span<const int> order) {
  require_float("transpose", {"input", x});
  std::vector<int> axes(order.begin(), order.end()), sorted = axes;
  std::ranges::sort(sorted);
  bool is_permutation = static_cast<int>(axes.size()) == x.shape().rank();
  for (std::size_t i = 0; i < sorted.size(); ++i)
    is_permutation = is_permutation && sorted[i] == static_cast<int>(i);
  if (!is_permutation)
    fail(ErrorKind::kShape, "[transpose] order: got [{}], expected each axis of input {} once",
         fmt::join(axes, ", "), to_string(x.shape()));
  std::vector<int> inverse(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i)
    inverse[static_cast<std::size_t>(axes[i])] = static_cast<int>(i);
  Tape& tape = x.tape();
  return tape.record("transpose", permuted(tape.backend(), x.value(), axes), {x},
                     [&tape, x = x.gradient_only(), inverse](const Tensor& dy) {
                       x.accumulate(permuted(tape.backend(), dy, inverse));
                     });
}

}  // namespace tandem

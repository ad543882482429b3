// Texts of the checks that the ops share.
#include "core/ops/op_checks.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxOption = std::int64_t{1} << 20;
constexpr std::int64_t kMaxExtent = (std::int64_t{1} << 31) - 1;

}  // namespace

void require_float(std::string_view op, const Operand& x) {
  if (!is_floating(x.var.dtype()))
    fail(ErrorKind::kShape, "[{}] dtype of the {}: got {}, expected a float dtype", op, x.name,
         to_string(x.var.value()));
  if (!x.var.value().is_packed())
    throw Error(ErrorKind::kShape,
                fmt::format("[{}] the {} is a view of some channels: got {} with rows {} apart, expected {}",
                            op, x.name, to_string(x.var.value()), x.var.value().channel_pitch(),
                            x.var.value().channels()),
                "Pass tensor.clone().");
}

void require_same_dtype(std::string_view op, const Operand& x, const Operand& y) {
  if (x.var.dtype() != y.var.dtype())
    throw Error(ErrorKind::kShape,
                fmt::format("[{}] dtypes differ: {} {}, {} {}", op, x.name, to_string(x.var.value()), y.name,
                            to_string(y.var.value())),
                "Use cast on one of them.");
}

void require_same_shape(std::string_view op, const Operand& x, const Operand& y) {
  if (x.var.shape() != y.var.shape())
    fail(ErrorKind::kShape, "[{}] shapes differ: {} {}, {} {}", op, x.name, to_string(x.var.shape()), y.name,
         to_string(y.var.shape()));
}

void require_kept_vector(std::string_view op, const Operand& v, std::int64_t size, const Operand& where) {
  const DType dtype = accumulation_dtype(where.var.dtype());
  const Shape shape{size};
  if (v.var.dtype() != dtype || v.var.shape() != shape)
    fail(ErrorKind::kShape, "[{}] {}: got {}, expected {} {} for {} {}", op, v.name, to_string(v.var.value()),
         name(dtype), to_string(shape), where.name, to_string(where.var.shape()));
}

void require_volume(std::string_view op, const Operand& x) {
  require_float(op, x);
  if (x.var.shape().rank() < 3 || x.var.shape().rank() > 5)
    fail(ErrorKind::kShape,
         "[{}] axes of the {}: got {}, expected [N, C, W], [N, C, H, W] or [N, C, D, H, W]", op, x.name,
         to_string(x.var.shape()));
  require_extents(op, x);
  if (x.var.shape().spatial_numel() == 0)
    fail(ErrorKind::kShape, "[{}] voxels of the {}: got {}, expected at least one", op, x.name,
         to_string(x.var.shape()));
}

std::string spatial_text(const Triple& values, int rank) {
  return to_string(Shape(std::span(values).last(static_cast<std::size_t>(rank))));
}

Triple checked_option(std::string_view op, std::string_view name, Triple values, int rank, std::int64_t low) {
  for (int i = 0; i < 3; ++i) {
    std::int64_t& value = values[static_cast<std::size_t>(i)];
    if (i < 3 - rank) value = low;
    if (i >= 3 - rank && (value < low || value > kMaxOption))
      fail(ErrorKind::kShape, "[{}] {}: got {}, expected {} to {}", op, name, value, low, kMaxOption);
  }
  return values;
}

void require_extents(std::string_view op, const Operand& x) {
  for (const std::int64_t size : x.var.shape().sizes())
    if (size > kMaxExtent)
      fail(ErrorKind::kShape, "[{}] an extent of the {}: got {}, expected at most {}", op, x.name,
           to_string(x.var.shape()), kMaxExtent);
}

Shape volume_shape(std::int64_t batch, std::int64_t channels, const Triple& spatial, int spatial_rank) {
  std::vector<std::int64_t> sizes{batch, channels};
  const auto absent = static_cast<std::size_t>(3 - spatial_rank);
  sizes.insert(sizes.end(), spatial.begin() + static_cast<std::ptrdiff_t>(absent), spatial.end());
  return Shape(sizes);
}

}  // namespace tandem

// Checks and arithmetic of sizes.
#include "core/tensor/shape.h"

#include <algorithm>

#include "core/base/error.h"

namespace tandem {

Shape::Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}

Shape::Shape(std::span<const std::int64_t> sizes) {
  if (sizes.size() > kMaxRank)
    fail(ErrorKind::kShape, "[shape] too many axes: got {}, expected at most {}", sizes.size(), kMaxRank);
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  rank_ = static_cast<int>(sizes.size());
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0) fail(ErrorKind::kShape, "[shape] negative size in {}", to_string(*this));
    if (size > 0 && product > (std::int64_t{1} << 60) / size)
      fail(ErrorKind::kShape, "[shape] {} has more than 2^60 elements", to_string(*this));
    product *= std::max<std::int64_t>(size, 1);
  }
}

std::int64_t Shape::numel() const {
  std::int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) product *= (*this)[axis];
  return product;
}

std::array<std::int64_t, 3> Shape::spatial() const {
  std::array<std::int64_t, 3> result{1, 1, 1};
  const int count = std::min(spatial_rank(), 3);
  for (int i = 0; i < count; ++i)
    result[static_cast<std::size_t>(3 - count + i)] = (*this)[rank_ - count + i];
  return result;
}

std::int64_t Shape::spatial_numel() const {
  std::int64_t product = 1;
  for (int axis = 2; axis < rank_; ++axis) product *= (*this)[axis];
  return product;
}

Shape Shape::with(int axis, std::int64_t size) const {
  Shape copy = *this;
  copy.sizes_[static_cast<std::size_t>(axis)] = size;
  return copy;
}

bool operator==(const Shape& a, const Shape& b) { return std::ranges::equal(a.sizes(), b.sizes()); }

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) text += (axis ? ", " : "") + std::to_string(shape[axis]);
  return text + "]";
}

}  // namespace tandem

// Sizes of a tensor in the logical order N, C, [D], [H], W. How it lies in memory is Tensor's subject.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace tandem {

// 0 to 6 sizes, each >= 0; the product (zeros left out) is at most 2^60, so that bytes fit 64 bits. Throws
// Error{kShape} otherwise.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(std::span<const std::int64_t> sizes);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  std::int64_t numel() const;
  std::span<const std::int64_t> sizes() const { return {sizes_.data(), static_cast<std::size_t>(rank_)}; }

  std::int64_t batch() const { return rank_ > 1 ? sizes_[0] : 1; }
  // Size of the innermost stored dimension: axis 1, or axis 0 of a rank-1 shape; 1 for rank 0.
  std::int64_t channels() const { return rank_ == 0 ? 1 : sizes_[rank_ == 1 ? 0 : 1]; }
  int spatial_rank() const { return rank_ > 2 ? rank_ - 2 : 0; }
  // Sizes of the spatial axes as depth, height, width; missing leading ones are 1.
  std::array<std::int64_t, 3> spatial() const;
  std::int64_t spatial_numel() const;
  // Copy with another size on `axis`.
  Shape with(int axis, std::int64_t size) const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[2, 4, 32, 32, 32]"

}  // namespace tandem

// Where the voxels of each class lie, in 8 bytes per row of the volume that holds the class: exact uniform
// choice of a voxel without keeping a list of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/volume.h"

namespace tandem {

class ClassIndex {
 public:
  ClassIndex() = default;
  // For `classes` classes (at most 256) on a grid of `shape`; class 0 counts only with `background`.
  ClassIndex(std::int64_t classes, const Index3& shape, bool background = false);

  // Counts the next row of class indices; rows come in order (z, then y), all of them.
  void add_row(std::span<const std::uint8_t> row);

  std::int64_t count(std::int64_t cls) const;
  // The classes above 0 that have voxels.
  std::vector<std::int64_t> present_foreground() const;

  // All of it as words, and back; `words` as packed() gave them.
  std::vector<std::uint32_t> packed() const;
  static ClassIndex unpacked(std::span<const std::uint32_t> words, const Index3& shape);

  // Voxel `k` (0 .. count - 1) of `cls` lies in row `row` (= z * shape y + y) as its `ordinal`-th voxel of
  // that class.
  struct Place {
    std::int64_t row = 0, ordinal = 0;
  };
  Place locate(std::int64_t cls, std::int64_t k) const;

 private:
  Index3 shape_{};
  // The rows that hold a class, and its voxels in those up to each.
  struct Rows {
    std::vector<std::uint32_t> row, until;
  };
  std::vector<Rows> classes_;
  std::uint32_t rows_ = 0;
  bool background_ = false;
};

}  // namespace tandem

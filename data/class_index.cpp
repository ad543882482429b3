// Counts per row and class.
#include "data/class_index.h"

#include <algorithm>

#include "core/base/error.h"

namespace tandem {

ClassIndex::ClassIndex(std::int64_t classes, const Index3& shape)
    : shape_(shape), before_(static_cast<std::size_t>(classes)) {
  if (voxel_count(shape) > std::int64_t{UINT32_MAX})
    fail(ErrorKind::kData, "[data] volume of {} voxels: got more than 4294967295, expected at most that many",
         to_string(shape));
}

void ClassIndex::add_row(std::span<const std::uint8_t> row) {
  std::array<std::uint32_t, 256> counts{};
  for (const std::uint8_t cls : row) ++counts[cls];
  for (std::size_t c = 0; c < before_.size(); ++c) {
    std::vector<std::uint32_t>& before = before_[c];
    if (before.empty()) {
      if (counts[c] == 0) continue;
      before.reserve(static_cast<std::size_t>(shape_[0] * shape_[1] + 1));
      before.assign(static_cast<std::size_t>(rows_ + 1), 0);
    }
    before.push_back(before.back() + counts[c]);
  }
  ++rows_;
}

std::int64_t ClassIndex::count(std::int64_t cls) const {
  const std::vector<std::uint32_t>& before = before_[static_cast<std::size_t>(cls)];
  return before.empty() ? 0 : before.back();
}

std::vector<std::int64_t> ClassIndex::present_foreground() const {
  std::vector<std::int64_t> present;
  for (std::int64_t c = 1; c < static_cast<std::int64_t>(before_.size()); ++c)
    if (count(c) > 0) present.push_back(c);
  return present;
}

ClassIndex::Place ClassIndex::locate(std::int64_t cls, std::int64_t k) const {
  check_internal(k >= 0 && k < count(cls), "ClassIndex::locate: no such voxel");
  const std::vector<std::uint32_t>& before = before_[static_cast<std::size_t>(cls)];
  const auto after = std::upper_bound(before.begin(), before.end(), static_cast<std::uint32_t>(k));
  const std::int64_t row = after - before.begin() - 1;
  return {row, k - before[static_cast<std::size_t>(row)]};
}

}  // namespace tandem

// Counts per row and class.
#include "data/class_index.h"

#include <algorithm>

#include "core/base/error.h"

namespace tandem {

ClassIndex::ClassIndex(std::int64_t classes, const Index3& shape, bool background)
    : shape_(shape), classes_(static_cast<std::size_t>(classes)), background_(background) {
  if (voxel_count(shape) > std::int64_t{UINT32_MAX})
    fail(ErrorKind::kData, "[data] volume of {} voxels: got more than 4294967295, expected at most that many",
         to_string(shape));
}

void ClassIndex::add_row(std::span<const std::uint8_t> row) {
  std::array<std::uint32_t, 256> counts{};
  for (const std::uint8_t cls : row) ++counts[cls];
  for (std::size_t c = background_ ? 0 : 1; c < classes_.size(); ++c) {
    if (counts[c] == 0) continue;
    Rows& rows = classes_[c];
    rows.until.push_back((rows.until.empty() ? 0 : rows.until.back()) + counts[c]);
    rows.row.push_back(rows_);
  }
  ++rows_;
}

std::int64_t ClassIndex::count(std::int64_t cls) const {
  const Rows& rows = classes_[static_cast<std::size_t>(cls)];
  return rows.until.empty() ? 0 : rows.until.back();
}

std::vector<std::uint32_t> ClassIndex::packed() const {
  std::vector<std::uint32_t> words{static_cast<std::uint32_t>(classes_.size())};
  for (const Rows& rows : classes_) {
    words.push_back(static_cast<std::uint32_t>(rows.row.size()));
    words.insert(words.end(), rows.row.begin(), rows.row.end());
    words.insert(words.end(), rows.until.begin(), rows.until.end());
  }
  return words;
}

ClassIndex ClassIndex::unpacked(std::span<const std::uint32_t> words, const Index3& shape) {
  check_internal(!words.empty(), "a class index without words");
  ClassIndex index(words[0], shape);
  auto at = words.begin() + 1;
  for (Rows& rows : index.classes_) {
    check_internal(at < words.end() && words.end() - at > 2 * static_cast<std::ptrdiff_t>(*at),
                   "a class index that is cut");
    const auto n = static_cast<std::ptrdiff_t>(*at++);
    rows.row.assign(at, at + n);
    rows.until.assign(at + n, at + 2 * n);
    at += 2 * n;
  }
  return index;
}

std::vector<std::int64_t> ClassIndex::present_foreground() const {
  std::vector<std::int64_t> present;
  for (std::int64_t c = 1; c < static_cast<std::int64_t>(classes_.size()); ++c)
    if (count(c) > 0) present.push_back(c);
  return present;
}

ClassIndex::Place ClassIndex::locate(std::int64_t cls, std::int64_t k) const {
  check_internal(k >= 0 && k < count(cls), "ClassIndex::locate: no such voxel");
  const Rows& rows = classes_[static_cast<std::size_t>(cls)];
  const auto at = static_cast<std::size_t>(
      std::upper_bound(rows.until.begin(), rows.until.end(), static_cast<std::uint32_t>(k)) -
      rows.until.begin());
  return {rows.row[at], k - (at == 0 ? 0 : rows.until[at - 1])};
}

}  // namespace tandem

// Two passes: provisional numbers joined by union-find, then numbers in order.
#include "data/connected_components.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/base/error.h"

namespace tandem {
namespace {

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

class DisjointSets {
 public:
  std::int32_t add() {
    parent_.push_back(static_cast<std::int32_t>(parent_.size()));
    return parent_.back();
  }
  std::int32_t root(std::int32_t i) {
    while (parent_[as_size(i)] != i) {
      parent_[as_size(i)] = parent_[as_size(parent_[as_size(i)])];
      i = parent_[as_size(i)];
    }
    return i;
  }
  // The smaller number becomes the root, so that a set is known by its first voxel.
  std::int32_t join(std::int32_t a, std::int32_t b) {
    a = root(a);
    b = root(b);
    parent_[as_size(std::max(a, b))] = std::min(a, b);
    return std::min(a, b);
  }
  std::size_t size() const { return parent_.size(); }

 private:
  std::vector<std::int32_t> parent_;
};

// The 13 neighbours that come before a voxel in z, y, x.
std::vector<Index3> earlier_neighbours() {
  std::vector<Index3> steps;
  for (std::int64_t z = -1; z <= 0; ++z)
    for (std::int64_t y = -1; y <= 1; ++y)
      for (std::int64_t x = -1; x <= 1; ++x)
        if (z < 0 || y < 0 || (y == 0 && x < 0)) steps.push_back({z, y, x});
  return steps;
}

}  // namespace

Components connected_components(std::span<const std::int32_t> labels, const Index3& shape) {
  check_internal(labels.size() == as_size(voxel_count(shape)) && labels.size() < as_size(INT32_MAX),
                 "connected_components: labels of another size");
  const std::vector<Index3> steps = earlier_neighbours();
  Components result{std::vector<std::int32_t>(labels.size(), -1), {}};
  DisjointSets sets;
  const auto number_of = [&](const Index3& at, std::int64_t i) {
    std::int32_t number = -1;
    for (const Index3& step : steps) {
      const Index3 to{at[0] + step[0], at[1] + step[1], at[2] + step[2]};
      if (to[0] < 0 || to[1] < 0 || to[2] < 0 || to[1] >= shape[1] || to[2] >= shape[2]) continue;
      const std::int64_t j = (to[0] * shape[1] + to[1]) * shape[2] + to[2];
      if (labels[as_size(j)] != labels[as_size(i)]) continue;
      const std::int32_t other = result.ids[as_size(j)];
      number = number < 0 ? other : sets.join(number, other);
    }
    return number < 0 ? sets.add() : number;
  };
  std::int64_t i = 0;
  for (std::int64_t z = 0; z < shape[0]; ++z)
    for (std::int64_t y = 0; y < shape[1]; ++y)
      for (std::int64_t x = 0; x < shape[2]; ++x, ++i)
        if (labels[as_size(i)] != 0) result.ids[as_size(i)] = number_of({z, y, x}, i);
  std::vector<std::int32_t> place(sets.size(), -1);
  for (std::size_t v = 0; v < labels.size(); ++v) {
    if (result.ids[v] < 0) continue;
    std::int32_t& number = place[as_size(sets.root(result.ids[v]))];
    if (number < 0) {
      number = static_cast<std::int32_t>(result.all.size());
      result.all.push_back({labels[v], 0});
    }
    result.ids[v] = number;
    ++result.all[as_size(number)].voxels;
  }
  return result;
}

std::int64_t keep_largest_components(std::span<std::int32_t> labels, const Index3& shape,
                                     const std::vector<std::int32_t>& classes) {
  const Components components = connected_components(labels, shape);
  std::map<std::int32_t, std::size_t> largest;
  for (std::size_t i = 0; i < components.all.size(); ++i) {
    const auto [entry, fresh] = largest.emplace(components.all[i].cls, i);
    if (!fresh && components.all[i].voxels > components.all[entry->second].voxels) entry->second = i;
  }
  std::vector<bool> removed(components.all.size(), false);
  for (std::size_t i = 0; i < removed.size(); ++i) {
    const std::int32_t cls = components.all[i].cls;
    removed[i] = std::find(classes.begin(), classes.end(), cls) != classes.end() && largest.at(cls) != i;
  }
  std::int64_t count = 0;
  for (std::size_t v = 0; v < labels.size(); ++v) {
    if (components.ids[v] < 0 || !removed[as_size(components.ids[v])]) continue;
    labels[v] = 0;
    ++count;
  }
  return count;
}

}  // namespace tandem

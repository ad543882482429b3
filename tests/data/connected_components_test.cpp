// Components by 26 neighbours, and keeping the largest of a class.
#include "data/connected_components.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using Labels = std::vector<std::int32_t>;

TEST(ConnectedComponents, FacesEdgesAndCornersTouch) {
  // Two voxels that share only a corner are one component; a gap of one voxel parts them.
  Labels corner(8, 0);
  corner[0] = corner[7] = 1;
  EXPECT_EQ(connected_components(corner, {2, 2, 2}).all.size(), 1u);
  EXPECT_EQ(connected_components(Labels{1, 0, 1}, {1, 1, 3}).all.size(), 2u);
  // (0, 0, 2) and (1, 1, 1): an edge neighbour that comes from the right.
  Labels diagonal(12, 0);
  diagonal[2] = diagonal[6 + 3 + 1] = 1;
  EXPECT_EQ(connected_components(diagonal, {2, 2, 3}).all.size(), 1u);
}

TEST(ConnectedComponents, ClassesDoNotJoinAndRowsDoNotWrap) {
  const Components found = connected_components(Labels{1, 2, 1, 0, 0, 0, 2, 0, 2}, {1, 3, 3});
  EXPECT_EQ(found.all.size(), 5u);
  // The end of a row and the start of the next are no neighbours.
  EXPECT_EQ(connected_components(Labels{0, 0, 0, 1, 1, 0, 0, 0}, {1, 2, 4}).all.size(), 2u);
}

TEST(ConnectedComponents, ArmsThatMeetLateAreOne) {
  // A U: its arms get numbers of their own and are joined at the bottom; another voxel stands apart.
  const Labels u{1, 0, 1, 0, 1,  //
                 1, 0, 1, 0, 0,  //
                 1, 1, 1, 0, 0};
  const Components found = connected_components(u, {1, 3, 5});
  ASSERT_EQ(found.all.size(), 2u);
  EXPECT_EQ(found.all[0].voxels, 7);
  EXPECT_EQ(found.all[1].voxels, 1);
  EXPECT_THAT(found.ids, ElementsAre(0, -1, 0, -1, 1, 0, -1, 0, -1, -1, 0, 0, 0, -1, -1));
}

// Flood fill over 26 neighbours: how many components a mask has.
std::size_t flood_count(const Labels& labels, const Index3& shape) {
  Labels left = labels;
  std::size_t count = 0;
  for (std::int64_t start = 0; start < voxel_count(shape); ++start) {
    if (left[static_cast<std::size_t>(start)] == 0) continue;
    ++count;
    const std::int32_t cls = left[static_cast<std::size_t>(start)];
    std::vector<std::int64_t> open{start};
    left[static_cast<std::size_t>(start)] = 0;
    while (!open.empty()) {
      const std::int64_t i = open.back();
      open.pop_back();
      const Index3 at{i / shape[2] / shape[1], i / shape[2] % shape[1], i % shape[2]};
      for (std::int64_t n = 0; n < 27; ++n) {
        const Index3 to{at[0] + n / 9 - 1, at[1] + n / 3 % 3 - 1, at[2] + n % 3 - 1};
        bool inside = true;
        for (std::size_t a = 0; a < 3; ++a) inside = inside && to[a] >= 0 && to[a] < shape[a];
        const std::int64_t j = (to[0] * shape[1] + to[1]) * shape[2] + to[2];
        if (!inside || left[static_cast<std::size_t>(j)] != cls) continue;
        left[static_cast<std::size_t>(j)] = 0;
        open.push_back(j);
      }
    }
  }
  return count;
}

TEST(ConnectedComponents, AgreesWithFloodFill) {
  const Index3 shape{7, 9, 8};
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    Labels labels;
    std::uint32_t state = seed;
    for (std::int64_t i = 0; i < voxel_count(shape); ++i) {
      state = state * 1664525u + 1013904223u;
      labels.push_back((state >> 24) < 40 ? static_cast<std::int32_t>(1 + (state >> 20) % 2) : 0);
    }
    const Components found = connected_components(labels, shape);
    EXPECT_EQ(found.all.size(), flood_count(labels, shape)) << seed;
    std::int64_t voxels = 0;
    for (const Components::Component& one : found.all) voxels += one.voxels;
    EXPECT_EQ(voxels, std::count_if(labels.begin(), labels.end(), [](std::int32_t v) { return v != 0; }));
  }
}

TEST(KeepLargest, RemovesTheOthersOfTheClassesAskedFor) {
  Labels labels{1, 0, 1, 1, 0, 2, 0, 2, 2, 0, 3, 0, 3};
  EXPECT_EQ(keep_largest_components(labels, {1, 1, 13}, {1, 3}), 2);
  // Class 1: the pair stays; class 2 is not asked for; class 3: of equal ones the first.
  EXPECT_THAT(labels, ElementsAre(0, 0, 1, 1, 0, 2, 0, 2, 2, 0, 3, 0, 0));
  EXPECT_EQ(keep_largest_components(labels, {1, 1, 13}, {1, 3}), 0);
}

TEST(KeepLargest, NothingToDoForAnEmptyMap) {
  Labels labels(8, 0);
  EXPECT_EQ(keep_largest_components(labels, {2, 2, 2}, {1}), 0);
}

}  // namespace
}  // namespace tandem

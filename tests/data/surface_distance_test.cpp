// Distance transform, surfaces and their distances against medical.md's vectors and scipy
// (tests/refs/make_surface_refs.py prints the values).
#include "data/surface_distance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "data/distance_transform.h"

namespace tandem {
namespace {

using Mask = std::vector<std::uint8_t>;
using Spacing = std::array<double, 3>;

Mask mask_of(const Index3& shape,
             const std::function<bool(std::int64_t, std::int64_t, std::int64_t)>& inside) {
  Mask mask;
  for (std::int64_t z = 0; z < shape[0]; ++z)
    for (std::int64_t y = 0; y < shape[1]; ++y)
      for (std::int64_t x = 0; x < shape[2]; ++x) mask.push_back(inside(z, y, x));
  return mask;
}

Mask ball(const Index3& shape, const Index3& centre, double radius, const Spacing& spacing) {
  return mask_of(shape, [&](std::int64_t z, std::int64_t y, std::int64_t x) {
    const double dz = static_cast<double>(z - centre[0]) * spacing[0];
    const double dy = static_cast<double>(y - centre[1]) * spacing[1];
    const double dx = static_cast<double>(x - centre[2]) * spacing[2];
    return dz * dz + dy * dy + dx * dx <= radius * radius;
  });
}

const Index3 kCubeShape{12, 12, 12};
Mask cube(std::int64_t first) {
  return mask_of(kCubeShape, [&](std::int64_t z, std::int64_t y, std::int64_t x) {
    return z >= first && z < first + 6 && y >= 2 && y < 8 && x >= 2 && x < 8;
  });
}

// Hash below 1/16, grown by one step along each axis.
Mask blobs(const Index3& shape, std::uint32_t seed) {
  const auto marked = [&](std::int64_t z, std::int64_t y, std::int64_t x) {
    if (z < 0 || y < 0 || x < 0 || z >= shape[0] || y >= shape[1] || x >= shape[2]) return false;
    auto h =
        static_cast<std::uint32_t>((z * shape[1] + y) * shape[2] + x) * 2654435761u + seed * 40503u + 12345u;
    h ^= h >> 16;
    h *= 0x7FEB352Du;
    h ^= h >> 15;
    return h < 1u << 26;
  };
  return mask_of(shape, [&](std::int64_t z, std::int64_t y, std::int64_t x) {
    return marked(z, y, x) || marked(z - 1, y, x) || marked(z + 1, y, x) || marked(z, y - 1, x) ||
           marked(z, y + 1, x) || marked(z, y, x - 1) || marked(z, y, x + 1);
  });
}

TEST(SurfaceDistance, CubesShiftedByOne) {
  const SurfaceDistances one = surface_distances(cube(3), cube(2), kCubeShape, {1, 1, 1});
  EXPECT_EQ(one.to_reference.size(), 152u);
  EXPECT_EQ(one.to_prediction.size(), 152u);
  EXPECT_EQ(one.hausdorff_mm(), 1);
  EXPECT_EQ(one.hausdorff_percentile_mm(95), 1);
  EXPECT_NEAR(one.average_mm(), .342105, 5e-7);
  EXPECT_EQ(one.surface_dice(1), 1);
  const SurfaceDistances thick = surface_distances(cube(3), cube(2), kCubeShape, {3, 1, 1});
  EXPECT_EQ(thick.hausdorff_mm(), 3);
  EXPECT_EQ(thick.hausdorff_percentile_mm(95), 3);
  EXPECT_NEAR(thick.average_mm(), .842105, 5e-7);
  EXPECT_NEAR(thick.surface_dice(1), .736842, 5e-7);
  EXPECT_EQ(thick.surface_dice(3), 1);
}

TEST(SurfaceDistance, AStrayVoxelMovesTheMaximumNotThePercentile) {
  Mask stray = cube(2);
  stray[(10 * 12 + 10) * 12 + 10] = 1;
  const SurfaceDistances found = surface_distances(stray, cube(2), kCubeShape, {1, 1, 1});
  EXPECT_NEAR(found.hausdorff_mm(), 5.196152, 5e-7);
  EXPECT_EQ(found.hausdorff_percentile_mm(95), 0);
  EXPECT_NEAR(found.surface_dice(1), .996721, 5e-7);
}

TEST(SurfaceDistance, ConcentricBalls) {
  const Index3 shape{24, 24, 24};
  const SurfaceDistances found = surface_distances(ball(shape, {12, 12, 12}, 6, {1, 1, 1}),
                                                   ball(shape, {12, 12, 12}, 8, {1, 1, 1}), shape, {1, 1, 1});
  EXPECT_EQ(found.to_reference.size(), 354u);
  EXPECT_EQ(found.to_prediction.size(), 606u);
  EXPECT_NEAR(found.hausdorff_mm(), 2.236068, 5e-7);
  EXPECT_NEAR(found.hausdorff_percentile_mm(95), 2.236068, 5e-7);
  EXPECT_NEAR(found.average_mm(), 1.857364, 5e-7);
  EXPECT_EQ(found.surface_dice(1), 0);
}

TEST(SurfaceDistance, AnisotropicVoxelsAsScipy) {
  const Spacing spacing{2.5, 0.7, 1.1};
  const Index3 shape{9, 31, 20};
  const SurfaceDistances balls = surface_distances(ball(shape, {4, 14, 9}, 7.5, spacing),
                                                   ball(shape, {3, 16, 10}, 6, spacing), shape, spacing);
  EXPECT_EQ(balls.to_reference.size(), 450u);
  EXPECT_EQ(balls.to_prediction.size(), 278u);
  EXPECT_NEAR(balls.hausdorff_mm(), 5, 1e-10);
  EXPECT_NEAR(balls.hausdorff_percentile_mm(95), 4.1400483089, 1e-10);
  EXPECT_NEAR(balls.pooled_percentile_mm(95), 3.91152144312, 1e-10);
  EXPECT_NEAR(balls.average_mm(), 1.80048983467, 1e-10);
  EXPECT_NEAR(balls.surface_dice(.5), .200549450549, 1e-11);
  EXPECT_NEAR(balls.surface_dice(1), .287087912088, 1e-11);
  EXPECT_NEAR(balls.surface_dice(2), .504120879121, 1e-11);
}

TEST(SurfaceDistance, RaggedMasksAtTheBorderAsScipy) {
  const Index3 shape{7, 11, 13};
  const SurfaceDistances found = surface_distances(blobs(shape, 1), blobs(shape, 2), shape, {3, .8, 1.25});
  EXPECT_EQ(found.to_reference.size(), 107u);
  EXPECT_EQ(found.to_prediction.size(), 84u);
  EXPECT_NEAR(found.hausdorff_mm(), 4.80234317807, 1e-10);
  EXPECT_NEAR(found.hausdorff_percentile_mm(95), 3.80906873981, 1e-10);
  EXPECT_NEAR(found.pooled_percentile_mm(95), 3.792191957, 1e-9);
  EXPECT_NEAR(found.average_mm(), 1.98388919531, 1e-10);
  EXPECT_NEAR(found.surface_dice(.5), .0314136125654, 1e-12);
  EXPECT_NEAR(found.surface_dice(1), .198952879581, 1e-12);
  EXPECT_NEAR(found.surface_dice(1.3), .272251308901, 1e-12);
}

TEST(SurfaceDistance, ToleranceAllowsForTheRoundingOfVoxelSizes) {
  // 0.8 as NIfTI stores it is above 0.8.
  const auto size = static_cast<double>(0.8f);
  ASSERT_GT(size, 0.8);
  const Index3 shape{1, 1, 3};
  const SurfaceDistances found = surface_distances(Mask{1, 0, 0}, Mask{0, 1, 0}, shape, {1, 1, size});
  EXPECT_EQ(found.surface_dice(0.8), 1);
  EXPECT_EQ(found.surface_dice(0.7999), 0);
}

TEST(SurfaceDistance, OneVoxelAndFullMasks) {
  EXPECT_EQ(surface_voxels(Mask{1}, {1, 1, 1}), Mask{1});
  const Mask surface = surface_voxels(Mask(27, 1), {3, 3, 3});
  EXPECT_EQ(std::accumulate(surface.begin(), surface.end(), 0), 26);  // all but the middle
  EXPECT_EQ(surface[13], 0);
}

TEST(SurfaceDistance, PercentileInterpolates) {
  const std::vector<double> values{0, 0, 1, 1, 2, 3, 4, 5, 6, 10};
  EXPECT_NEAR(percentile_of(values, 95), 8.2, 1e-12);
  EXPECT_EQ(percentile_of(values, 0), 0);
  EXPECT_EQ(percentile_of(values, 100), 10);
  EXPECT_EQ(percentile_of(std::vector<double>{7}, 95), 7);
}

TEST(DistanceTransform, AsScipy) {
  const Index3 shape{7, 11, 13};
  const std::vector<double> squared = squared_distances_mm2(blobs(shape, 3), shape, {3, .8, 1.25});
  double sum = 0, weighted = 0;
  for (std::size_t i = 0; i < squared.size(); ++i) {
    sum += squared[i];
    weighted += squared[i] * static_cast<double>(i);
  }
  EXPECT_NEAR(sum, 7556.845, 1e-8);
  EXPECT_NEAR(weighted, 4264602.2025, 1e-5);
  EXPECT_NEAR(*std::max_element(squared.begin(), squared.end()), 62.4025, 1e-10);

  const Index3 sparse{5, 6, 40};
  const auto points = mask_of(sparse, [](std::int64_t z, std::int64_t y, std::int64_t x) {
    return (z == 1 && y == 2 && x == 3) || (z == 4 && y == 5 && x == 39) || (z == 0 && y == 0 && x == 20);
  });
  const std::vector<double> far = squared_distances_mm2(points, sparse, {.5, 10, .1});
  EXPECT_NEAR(std::accumulate(far.begin(), far.end(), 0.0), 65534.84, 1e-6);
  EXPECT_NEAR(*std::max_element(far.begin(), far.end()), 119.21, 1e-10);
}

TEST(DistanceTransform, NothingToReachIsInfinite) {
  for (const double value : squared_distances_mm2(Mask(8, 0), {2, 2, 2}, {1, 1, 1}))
    EXPECT_TRUE(std::isinf(value));
  EXPECT_TRUE(squared_distances_mm2({}, {0, 0, 0}, {1, 1, 1}).empty());
}

}  // namespace
}  // namespace tandem

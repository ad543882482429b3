// Topology, patch, batch and spacing against medical.md 2.1 and nnU-Net's own planner (tests/refs/plans.inc).
#include "train/plan_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/volume.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using Triples = std::vector<std::array<std::int64_t, 3>>;

Index3 pools(const NetworkTopology& topology) {
  Index3 counts{};
  for (const auto& stride : topology.strides)
    for (std::size_t a = 0; a < 3; ++a) counts[a] += stride[a] == 2;
  return counts;
}

TEST(PlanTopology, TheVectorsOfNnunet) {
  const NetworkTopology cube = plan_topology({1, 1, 1}, {128, 128, 128});
  EXPECT_EQ(pools(cube), (Index3{5, 5, 5}));
  EXPECT_EQ(cube.multiple(), (Index3{32, 32, 32}));
  EXPECT_EQ(cube.kernels, Triples(6, {3, 3, 3}));
  const NetworkTopology flat = plan_topology({3, .78, .78}, {48, 192, 192});
  EXPECT_EQ(pools(flat), (Index3{3, 5, 5}));
  EXPECT_EQ(flat.strides, (Triples{{1, 1, 1}, {1, 2, 2}, {2, 2, 2}, {2, 2, 2}, {2, 2, 2}, {1, 2, 2}}));
  EXPECT_EQ(flat.kernels, (Triples{{1, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 3, 3}}));
  EXPECT_EQ(flat.multiple(), (Index3{8, 32, 32}));
  const NetworkTopology thin = plan_topology({5, .625, .625}, {20, 320, 256});
  EXPECT_EQ(pools(thin), (Index3{2, 6, 6}));
  EXPECT_EQ(thin.strides,
            (Triples{{1, 1, 1}, {1, 2, 2}, {1, 2, 2}, {1, 2, 2}, {2, 2, 2}, {2, 2, 2}, {1, 2, 2}}));
  EXPECT_EQ(thin.kernels,
            (Triples{{1, 3, 3}, {1, 3, 3}, {1, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 3, 3}}));
  const NetworkTopology small = plan_topology({1, 1, 1}, {40, 56, 40});
  EXPECT_EQ(pools(small), (Index3{3, 3, 3}));
  const NetworkTopology uneven = plan_topology({3, 3, 3}, {64, 64, 32});
  EXPECT_EQ(pools(uneven), (Index3{4, 4, 3}));
  EXPECT_EQ(uneven.strides.back(), (std::array<std::int64_t, 3>{2, 2, 1}));
  EXPECT_EQ(plan_topology({1, 1, 1}, {37, 50, 33}).patch, (Index3{40, 56, 40}));  // padded
}

TEST(PlanTopology, MemoryProxyOfThePaperNetwork) {
  EXPECT_EQ(conv_output_values(plan_topology({1, 1, 1}, {128, 128, 128}), 3), 453694976);
  EXPECT_THAT(planned_features(6), ElementsAre(32, 64, 128, 256, 320, 320));
}

struct Row {
  Spacing spacing;
  MedianShape shape;
  std::int64_t cases, outputs;
  double gigabytes;
  Index3 patch;
  Triples strides, kernels;
  std::int64_t batch;
};

// The first five are data sets whose plans nnU-Net published: Hippocampus, Liver, Prostate, BTCV, BraTS.
TEST(PlanNetwork, IsNnunetsPlan) {
  const std::vector<Row> rows{
#include "tests/refs/plans.inc"
  };
  ASSERT_EQ(rows.size(), 20u);
  for (const Row& row : rows) {
    const NetworkPlan plan = plan_network({row.spacing, row.shape, row.cases, row.outputs, row.gigabytes});
    const auto at = [&] { return &row - rows.data(); };
    EXPECT_EQ(plan.topology.patch, row.patch) << at();
    EXPECT_EQ(plan.topology.strides, row.strides) << at();
    EXPECT_EQ(plan.topology.kernels, row.kernels) << at();
    EXPECT_EQ(plan.batch, row.batch) << at();
  }
}

TEST(PlanNetwork, ATinyBudgetEndsAtASmallPatch) {
  const NetworkPlan plan = plan_network({{1, 1, 1}, {100, 100, 100}, 10, 2, 1e-6});
  for (const std::int64_t edge : plan.topology.patch) EXPECT_GE(edge, 1);
  EXPECT_EQ(plan.batch, 2);
}

TEST(PlannedSpacing, MedianOrTheTenthPercentileOfACoarseAxis) {
  const auto shapes = [](std::int64_t z) { return std::vector<Index3>(3, {z, 512, 512}); };
  // (5, .7, .7) is anisotropic: percentile 10 of 3, 5, 6 is 3.4.
  const std::vector<Spacing> coarse{{6, .7, .7}, {3, .7, .8}, {5, .6, .7}};
  const Spacing target = planned_spacing(coarse, shapes(30));
  EXPECT_NEAR(target[0], 3.4, 1e-12);
  EXPECT_NEAR(target[1], .7, 1e-12);
  EXPECT_NEAR(planned_spacing(coarse, shapes(200))[0], 5, 1e-12);  // as many voxels as the others have
  const std::vector<Spacing> fine{{2, .7, .7}, {2, .7, .7}, {1, .7, .7}};
  EXPECT_NEAR(planned_spacing(fine, shapes(30))[0], 2, 1e-12);  // less than 3 times
  const std::vector<Spacing> mixed{{5, 1, 1}, {5, 1, 1}, {.5, 1, 1}};
  EXPECT_NEAR(planned_spacing(mixed, shapes(30))[0], 1.4, 1e-12);
  const std::vector<Spacing> below{{5, 1, 1}, {5, 1, 1}, {.5, 1, 1}, {.5, 1, 1}, {5, 1, 1}};
  EXPECT_NEAR(planned_spacing(below, std::vector<Index3>(5, {30, 512, 512}))[0], 1 + 1e-5, 1e-9);
  // compute_new_shape of medical.md 2.6, and the median of an even number.
  EXPECT_EQ(resampled_shape({30, 512, 512}, {5, .7, .7}, {3, .8, .8}), (Index3{50, 448, 448}));
  EXPECT_THAT(median_shape({{10, 20, 30}, {11, 20, 40}}), ElementsAre(10.5, 20, 35));
}

}  // namespace
}  // namespace tandem

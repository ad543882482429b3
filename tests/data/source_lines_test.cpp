// Logits brought back to the grid of the source slice by slice: the same bits as through the whole volume,
// and the memory that takes.
#include "data/source_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "core/base/rng.h"
#include "data/prediction.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using testing::TempFolder;
using Values = std::vector<float>;

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

Values random_values(std::int64_t count) {
  Values values;
  RandomStream stream(5, RandomPurpose::kSynthetic, 0, 0);
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(i % 11 == 0 ? -0.0f : static_cast<float>(4 * stream.normal()));
  return values;
}

// Through the whole volume: resampled at once and set into the source's grid.
Values whole(const GridPlacement& placement, const Values& logits, const Values& outside) {
  const auto& [source, begin, plan] = placement;
  const std::int64_t channels = std::ssize(outside);
  const Values inner = resample_values(logits, plan.reversed(), channels, 1);
  Values result;
  for (std::int64_t z = 0; z < source[0]; ++z)
    for (std::int64_t y = 0; y < source[1]; ++y)
      for (std::int64_t x = 0; x < source[2]; ++x) {
        const Index3 at{z - begin[0], y - begin[1], x - begin[2]};
        bool inside = true;
        for (std::size_t a = 0; a < 3; ++a) inside = inside && at[a] >= 0 && at[a] < plan.from[a];
        const auto first =
            inside ? inner.begin() + ((at[0] * plan.from[1] + at[1]) * plan.from[2] + at[2]) * channels
                   : outside.begin();
        result.insert(result.end(), first, first + channels);
      }
  return result;
}

// Slice by slice; every line must come once.
Values streamed(const GridPlacement& placement, const Values& logits, const Values& outside) {
  const Index3 &source = placement.source, &to = placement.plan.to;
  const std::int64_t channels = std::ssize(outside), row = to[2] * channels;
  Values result(as_size(voxel_count(source) * channels));
  std::vector<std::atomic<int>> times(as_size(source[0] * source[1]));
  SourceLines lines(placement, outside, [&](std::int64_t z, std::int64_t y, std::span<const float> line) {
    ++times[as_size(z * source[1] + y)];
    ASSERT_EQ(std::ssize(line), source[2] * channels);
    std::ranges::copy(line, result.begin() + (z * source[1] + y) * source[2] * channels);
  });
  for (std::int64_t z = 0; z < to[0]; ++z) {
    for (std::int64_t y = to[1]; y-- > 0;)  // lines of a slice come in any order
      lines.add(z, y, std::span(logits).subspan(as_size((z * to[1] + y) * row), as_size(row)));
    lines.finish_slice(z);
  }
  for (const std::atomic<int>& n : times) EXPECT_EQ(n, 1);
  return result;
}

struct NamedPlacement {
  const char* name;
  GridPlacement placement;
};
const NamedPlacement kPlacements[] = {
    {"finer network", {{7, 9, 11}, {}, {{7, 9, 11}, {13, 16, 21}, {}}}},
    {"coarser network", {{13, 16, 21}, {}, {{13, 16, 21}, {7, 9, 5}, {}}}},
    {"finer and coarser", {{9, 8, 7}, {}, {{9, 8, 7}, {5, 17, 7}, {}}}},
    {"much coarser", {{31, 5, 6}, {}, {{31, 5, 6}, {3, 5, 6}, {}}}},
    {"much finer", {{3, 5, 6}, {}, {{3, 5, 6}, {31, 4, 6}, {}}}},
    {"one slice", {{5, 4, 3}, {}, {{5, 4, 3}, {1, 7, 3}, {}}}},
    {"one source slice", {{1, 4, 3}, {}, {{1, 4, 3}, {5, 1, 1}, {}}}},
    {"slices apart along z", {{5, 9, 8}, {}, {{5, 9, 8}, {8, 13, 5}, 0}}},
    {"slices apart along z, coarser", {{11, 9, 8}, {}, {{11, 9, 8}, {4, 9, 13}, 0}}},
    {"slices apart along y", {{7, 5, 8}, {}, {{7, 5, 8}, {11, 8, 5}, 1}}},
    {"slices apart along x", {{7, 9, 4}, {}, {{7, 9, 4}, {11, 7, 7}, 2}}},
    {"cropped", {{9, 8, 11}, {2, 1, 3}, {{5, 6, 7}, {5, 6, 7}, {}}}},
    {"cropped and resampled", {{9, 8, 11}, {1, 2, 3}, {{7, 5, 8}, {11, 8, 5}, {}}}},
    {"cropped at the far corner, slices apart", {{9, 8, 11}, {4, 3, 4}, {{5, 5, 7}, {9, 7, 4}, 0}}},
};

TEST(SourceLines, SliceBySliceTheBitsAreThoseOfTheWholeVolume) {
  for (const auto& [name, placement] : kPlacements)
    for (const Values& outside : {Values{-30}, Values{30, -30, -29}}) {
      const Values logits = random_values(voxel_count(placement.plan.to) * std::ssize(outside));
      const Values expected = whole(placement, logits, outside), got = streamed(placement, logits, outside);
      ASSERT_EQ(got.size(), expected.size());
      std::size_t different = 0;
      for (std::size_t i = 0; i < got.size(); ++i)
        different += std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(expected[i]);
      EXPECT_EQ(different, 0u) << name;
    }
}

TEST(SourceLines, AnInfiniteLogitReachesNoFurtherThanItsNeighbours) {
  const GridPlacement placement{{6, 1, 1}, {}, {{6, 1, 1}, {3, 1, 1}, {}}};
  const float infinity = std::numeric_limits<float>::infinity();
  // Voxels of the source read at -0.25, 0.25, 0.75, 1.25, 1.75, 2.25.
  EXPECT_THAT(streamed(placement, {1, 2, infinity}, {0}),
              ::testing::ElementsAre(1, 1.25, 1.75, infinity, infinity, infinity));
}

TEST(SourceLines, HoldsTwoSlicesOrTheNearest) {
  for (const auto& [name, placement] : kPlacements) {
    Allocator& allocator = *allocator_of(kCpuDevice);
    allocator.reset_peak();
    const auto workspace = static_cast<std::size_t>(MemoryCategory::kWorkspace);
    const std::int64_t before = allocator.statistics().current[workspace];
    const Index3& to = placement.plan.to;
    streamed(placement, random_values(voxel_count(to) * 2), {0, 1});
    const std::int64_t held = allocator.statistics().peak[workspace] - before;
    EXPECT_EQ(held, SourceLines::bytes(placement, 2)) << name;
    EXPECT_LE(held, 2 * to[1] * to[2] * 2 * 4) << name;
  }
}

// A case of 1.5 x 1 x 2 mm with a border of zeros, bright in the middle.
void write_bordered(const std::filesystem::path& path, const Index3& shape,
                    const std::array<double, 3>& spacing_mm) {
  const Affine affine = affine_of_spacing(spacing_mm);
  Volume image{Geometry(SourceGrid{shape, affine, nifti_space_of(affine)}), 1, {}};
  RandomStream stream(9, RandomPurpose::kSynthetic, 0, 0);
  for (std::int64_t z = 0; z < shape[0]; ++z)
    for (std::int64_t y = 0; y < shape[1]; ++y)
      for (std::int64_t x = 0; x < shape[2]; ++x) {
        const bool inside = z >= 2 && y >= 1 && x >= 3 && z + 3 < shape[0] && y + 2 < shape[1];
        image.values.push_back(inside ? 1 + static_cast<float>(std::abs(stream.normal())) : 0.0f);
      }
  write_case(path, "bordered", image, nullptr);
}

// Logits (v, -v + 0.3 place in the patch, 1 - v).
PatchModel three_classes() {
  return [](const Tensor& image) {
    Tensor logits(image.shape().with(1, 3), DType::kF32);
    for (std::int64_t i = 0; i < image.numel(); ++i) {
      const float v = image.data<float>()[i];
      const float own[] = {v, -v + 0.3f * static_cast<float>(i % 13), 1 - v};
      std::copy_n(own, 3, logits.data<float>() + 3 * i);
    }
    return logits;
  };
}

// All logits of the prepared volume at once, then back, then the largest.
std::vector<std::int32_t> labels_through_whole_volume(const PreparedCase& source, const WindowOptions& window,
                                                      const PatchModel& model) {
  const Index3& shape = source.shape();
  Values all(as_size(voxel_count(shape) * 3));
  const WindowSource volume{.shape = shape,
                            .channels = 1,
                            .classes = 3,
                            .read = [&](const Index3& begin, const Index3& size, std::span<float> values) {
                              source.read_box(begin, size, values, {});
                            }};
  sliding_window(volume, window, std::span(&model, 1),
                 [&](std::int64_t z, std::int64_t y, std::span<const float> logits) {
                   std::ranges::copy(logits, all.begin() + (z * shape[1] + y) * shape[2] * 3);
                 });
  const Values back = whole(source.placement(), all, {30, -30, -30});
  std::vector<std::int32_t> labels;
  for (auto voxel = back.begin(); voxel != back.end(); voxel += 3)
    labels.push_back(static_cast<std::int32_t>(std::max_element(voxel, voxel + 3) - voxel));
  return labels;
}

TEST(SourceLines, APredictionTakesWhatItsBoundSaysAndGivesTheSameLabels) {
  const TempFolder folder;
  const auto workspace = static_cast<std::size_t>(MemoryCategory::kWorkspace);
  Allocator& allocator = *allocator_of(kCpuDevice);
  const PatchModel model = three_classes();
  const Spacing fine{1.5, 1, 2}, apart{5, 1, 1.2};
  for (const Spacing& spacing : {fine, apart})
    for (const Spacing& wanted : {Spacing{1, 1.3, 1}, Spacing{2.5, .8, 3}})
      for (const bool crop : {false, true}) {
        write_bordered(folder / "case.h5", {23, 14, 17}, spacing);
        DataOptions options = testing::plain_options();
        options.spacing = {{wanted[0], wanted[1], wanted[2]}};
        options.crop_nonzero = crop;
        const PreparedCase source(open_case(case_of_file(folder / "case.h5")), options, true);
        const WindowOptions window{.patch = {8, 8, 8}, .batch_size = 3};
        allocator.reset_peak();
        const std::int64_t before = allocator.statistics().current[workspace];
        const std::vector<std::int32_t> labels =
            predict_case(source, window, std::span(&model, 1), {.classes = 3}).labels;
        EXPECT_EQ(allocator.statistics().peak[workspace] - before,
                  prediction_bytes(source.placement(), window, 1, {.classes = 3}).sums);
        EXPECT_EQ(labels, labels_through_whole_volume(source, window, model));
      }
}

// All logits of a volume of 1000 slices would be as many; what is held follows the patch.
TEST(SourceLines, ABoundFollowsThePatchAndNotTheDepth) {
  const auto sums = [](std::int64_t depth) {
    const GridPlacement placement{{depth, 128, 128}, {}, {{depth, 128, 128}, {2 * depth, 96, 96}, {}}};
    return prediction_bytes(placement, {.patch = {32, 32, 32}}, 1, {.classes = 10}).sums;
  };
  EXPECT_EQ(sums(200), sums(1000));
  // All slices of a row of windows with the weights, two more slices, the weights of a window.
  EXPECT_EQ(sums(1000), (32 * 96 * 96 * 11 + 2 * 96 * 96 * 10 + 32 * 32 * 32) * 4);
}

}  // namespace
}  // namespace tandem

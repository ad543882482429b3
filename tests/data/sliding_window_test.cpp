// Sliding windows: where they lie, their weights, blending, mirrored copies, several models, and the memory
// that the sums take.
#include "data/sliding_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/base/rng.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

TEST(SlidingWindow, StartsAreThoseOfTheField) {
  // medical.md 2.7, nnU-Net.
  EXPECT_THAT(window_starts(110, 64, .5), ElementsAre(0, 23, 46));
  EXPECT_THAT(window_starts(128, 64, .5), ElementsAre(0, 32, 64));
  EXPECT_THAT(window_starts(100, 64, .5), ElementsAre(0, 18, 36));
  EXPECT_THAT(window_starts(200, 96, .5), ElementsAre(0, 35, 69, 104));
  EXPECT_THAT(window_starts(122, 64, .5), ElementsAre(0, 29, 58));
  EXPECT_THAT(window_starts(101, 64, .5), ElementsAre(0, 18, 37));
  EXPECT_THAT(window_starts(30, 16, .5), ElementsAre(0, 7, 14));
  EXPECT_THAT(window_starts(64, 64, .5), ElementsAre(0));
  EXPECT_THAT(window_starts(20, 64, .5), ElementsAre(0));
  EXPECT_THAT(window_starts(65, 64, 0), ElementsAre(0, 1));
}

TEST(SlidingWindow, GaussianWeightsAreThoseOfTheField) {
  const auto line = [](std::int64_t t) { return window_weights({1, 1, t}, BlendKind::kGaussian); };
  const std::vector<double> eight{.0003355, .011109, .1353353, .6065307, 1, .6065307, .1353353, .011109};
  const std::vector<double> sixteen{.0003355, .0021875, .011109,  .0439369, .1353353,
                                    .3246525, .6065307, .8824969, 1,        .8824969};
  for (std::size_t i = 0; i < eight.size(); ++i) EXPECT_NEAR(line(8)[i], eight[i], 5e-8) << i;
  for (std::size_t i = 0; i < sixteen.size(); ++i) EXPECT_NEAR(line(16)[i], sixteen[i], 5e-8) << i;
  const std::vector<float> cube = window_weights({64, 64, 64}, BlendKind::kGaussian);
  EXPECT_NEAR(*std::min_element(cube.begin(), cube.end()), 3.8e-11, 5e-13);
  EXPECT_EQ(*std::max_element(cube.begin(), cube.end()), 1);
  EXPECT_THAT(window_weights({1, 2, 3}, BlendKind::kConstant), ::testing::Each(1.0f));
}

// A volume [Z, Y, X, C] as a reader of boxes with zeros beyond it.
struct Field {
  Index3 shape{};
  std::int64_t channels = 1;
  std::vector<float> values;

  static Field random(const Index3& shape, std::int64_t channels) {
    Field field{shape, channels, {}};
    RandomStream stream(2, RandomPurpose::kSynthetic, 0, 0);
    for (std::int64_t i = 0; i < voxel_count(shape) * channels; ++i)
      field.values.push_back(static_cast<float>(stream.normal()));
    return field;
  }
  float at(std::int64_t z, std::int64_t y, std::int64_t x, std::int64_t c) const {
    if (z < 0 || y < 0 || x < 0 || z >= shape[0] || y >= shape[1] || x >= shape[2]) return 0;
    return values[static_cast<std::size_t>(((z * shape[1] + y) * shape[2] + x) * channels + c)];
  }
  void read(const Index3& begin, const Index3& size, std::span<float> out) const {
    std::size_t i = 0;
    for (std::int64_t z = 0; z < size[0]; ++z)
      for (std::int64_t y = 0; y < size[1]; ++y)
        for (std::int64_t x = 0; x < size[2]; ++x)
          for (std::int64_t c = 0; c < channels; ++c)
            out[i++] = at(begin[0] + z, begin[1] + y, begin[2] + x, c);
  }
  // The lines of a prediction in one piece: [Z, Y, X, models * classes].
  std::vector<float> predict(const WindowOptions& options, const std::vector<PatchModel>& models,
                             std::int64_t classes = 1) const {
    const WindowSource source{.shape = shape,
                              .channels = channels,
                              .classes = classes,
                              .read = [this](const auto& b, const auto& s, auto out) { read(b, s, out); }};
    std::vector<float> result(static_cast<std::size_t>(voxel_count(shape) * classes) * models.size(), -1e30f);
    std::atomic<std::int64_t> lines{0};
    sliding_window(
        source, options, models, [&](std::int64_t z, std::int64_t y, std::span<const float> logits) {
          ++lines;
          std::copy(logits.begin(), logits.end(),
                    result.begin() + (z * shape[1] + y) * static_cast<std::int64_t>(logits.size()));
        });
    EXPECT_EQ(lines, shape[0] * shape[1]);  // each line once
    return result;
  }
};

// Per voxel: logits (v, -v, 2 v + 1) of channel 0, in `dtype`.
PatchModel voxelwise(DType dtype) {
  return [dtype](const Tensor& image) {
    const std::int64_t rows = image.rows(), channels = image.channels();
    std::vector<float> values;
    for (std::int64_t r = 0; r < rows; ++r) {
      const float v = image.data<float>()[r * channels];
      values.insert(values.end(), {v, -v, 2 * v + 1});
    }
    Tensor logits(image.shape().with(1, 3), dtype);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::kF32) logits.data<float>()[i] = values[i];
      if (dtype == DType::kF16) logits.data<Half>()[i] = to_half(values[i]);
      if (dtype == DType::kBF16) logits.data<BFloat16>()[i] = to_bfloat16(values[i]);
    }
    return logits;
  };
}

TEST(SlidingWindow, AVoxelwiseModelGivesItsOwnValuesEverywhere) {
  // Larger, smaller and equal to the patch, odd sizes, several windows at once, 16-bit logits.
  for (const Index3& shape : {Index3{9, 8, 13}, Index3{3, 8, 5}, Index3{1, 1, 1}, Index3{20, 3, 9}})
    for (const BlendKind blend : {BlendKind::kGaussian, BlendKind::kConstant})
      for (const std::int64_t batch : {1, 4})
        for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
          const Field field = Field::random(shape, 2);
          const std::vector<float> result = field.predict(
              {.patch = {4, 8, 6}, .overlap = .5, .blend = blend, .mirror_axes = {}, .batch_size = batch},
              {voxelwise(dtype)}, 3);
          const double tolerance = dtype == DType::kF32 ? 1e-6 : dtype == DType::kF16 ? 4e-3 : 4e-2;
          for (std::size_t v = 0; v < result.size() / 3; ++v) {
            const double expected = field.values[2 * v];
            ASSERT_NEAR(result[3 * v], expected, tolerance);
            ASSERT_NEAR(result[3 * v + 1], -expected, tolerance);
            ASSERT_NEAR(result[3 * v + 2], 2 * expected + 1, 2 * tolerance);
          }
        }
}

TEST(SlidingWindow, OverlapsAreBlendedByTheWeights) {
  // Each window answers with its number: 0, 1, 2 at 0, 2, 4 along x.
  Field field{{1, 1, 8}, 1, std::vector<float>(8)};
  int window = 0;
  const std::vector<float> result =
      field.predict({.patch = {1, 1, 4}}, {[&](const Tensor& image) {
                      Tensor logits(image.shape().with(1, 1), DType::kF32);
                      std::fill_n(logits.data<float>(), 4, static_cast<float>(window));
                      ++window;
                      return logits;
                    }});
  EXPECT_EQ(window, 3);
  const std::vector<float> w = window_weights({1, 1, 4}, BlendKind::kGaussian);
  const double expected[] = {0,
                             0,
                             w[0] * 1. / (w[2] + w[0]),
                             w[1] * 1. / (w[3] + w[1]),
                             (w[2] + w[0] * 2.) / (w[2] + w[0]),
                             (w[3] + w[1] * 2.) / (w[3] + w[1]),
                             2,
                             2};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(result[i], expected[i], 1e-6) << i;
}

TEST(SlidingWindow, LargeLogitsStayFinite) {
  // medical.md 4, row 17: FP16 sums of 900 * 10 * 8 overflow.
  Field field{{96, 32, 32}, 1, std::vector<float>(96 * 32 * 32)};
  const std::vector<float> result =
      field.predict({.patch = {32, 32, 32}}, {[](const Tensor& image) {
                      Tensor logits(image.shape().with(1, 1), DType::kF16);
                      std::fill_n(logits.data<Half>(), logits.numel(), to_half(900));
                      return logits;
                    }});
  for (const float value : result) ASSERT_NEAR(value, 900, 1e-3);
}

TEST(SlidingWindow, MirroredPredictionAveragesAllSubsets) {
  // Logit = value * (position in the patch): not symmetric, so each subset gives something else.
  const Index3 shape{2, 3, 4};
  const Field field = Field::random(shape, 1);
  int calls = 0;
  const PatchModel model = [&](const Tensor& image) {
    ++calls;
    Tensor logits(image.shape().with(1, 1), DType::kF32);
    for (std::int64_t i = 0; i < image.numel(); ++i)
      logits.data<float>()[i] = image.data<float>()[i] * static_cast<float>(i);
    return logits;
  };
  for (const auto& [axes, subsets] : {std::pair<std::vector<int>, int>{{}, 1}, {{2}, 2}, {{0, 1, 2}, 8}}) {
    calls = 0;
    const std::vector<float> result = field.predict({.patch = shape, .mirror_axes = axes}, {model});
    EXPECT_EQ(calls, subsets);
    std::size_t i = 0;
    for (std::int64_t z = 0; z < 2; ++z)
      for (std::int64_t y = 0; y < 3; ++y)
        for (std::int64_t x = 0; x < 4; ++x, ++i) {
          double factor = 0;
          for (int s = 0; s < subsets; ++s) {
            Index3 at{z, y, x};
            for (std::size_t a = 0; a < axes.size(); ++a)
              if ((s >> a & 1) != 0) {
                const auto axis = static_cast<std::size_t>(axes[a]);
                at[axis] = shape[axis] - 1 - at[axis];
              }
            factor += static_cast<double>((at[0] * 3 + at[1]) * 4 + at[2]);
          }
          EXPECT_NEAR(result[i], field.values[i] * factor / subsets, 1e-4);
        }
  }
}

TEST(SlidingWindow, ModelsThatAnswerInAnotherShapeAreRefused) {
  const Field field = Field::random({4, 4, 4}, 1);
  const auto answer = [](const Shape& shape, DType dtype) {
    return PatchModel([=](const Tensor&) { return Tensor(shape, dtype); });
  };
  EXPECT_THAT(error_of(ErrorKind::kShape,
                       [&] {
                         field.predict({.patch = {4, 4, 4}}, {answer({1, 2, 4, 4, 3}, DType::kF32)}, 2);
                       }),
              HasSubstr("got F32 [1, 2, 4, 4, 3] for an image F32 [1, 1, 4, 4, 4], expected 2 classes"));
  EXPECT_THAT(error_of(ErrorKind::kShape,
                       [&] {
                         field.predict({.patch = {4, 4, 4}}, {answer({1, 3, 4, 4, 4}, DType::kF32)}, 2);
                       }),
              HasSubstr("expected 2 classes"));
  EXPECT_THAT(error_of(ErrorKind::kShape,
                       [&] {
                         field.predict({.patch = {4, 4, 4}}, {answer({1, 2, 4, 4, 4}, DType::kI32)}, 2);
                       }),
              HasSubstr("expected a floating dtype"));
}

TEST(SlidingWindow, SeveralModelsStandSideBySide) {
  const Field field = Field::random({5, 6, 7}, 1);
  const PatchModel twice = [](const Tensor& image) {
    Tensor logits(image.shape(), DType::kF32);
    for (std::int64_t i = 0; i < image.numel(); ++i) logits.data<float>()[i] = 2 * image.data<float>()[i];
    return logits;
  };
  const PatchModel same = [](const Tensor& image) { return image; };
  const std::vector<float> result = field.predict({.patch = {4, 4, 4}, .mirror_axes = {0, 2}}, {same, twice});
  for (std::size_t v = 0; v < field.values.size(); ++v) {
    EXPECT_NEAR(result[2 * v], field.values[v], 1e-6);
    EXPECT_NEAR(result[2 * v + 1], 2 * field.values[v], 2e-6);
  }
}

// A model of `classes` classes whose logit k is value + k.
PatchModel counting_model(std::int64_t classes) {
  return [classes](const Tensor& image) {
    Tensor logits(image.shape().with(1, classes), DType::kF32);
    for (std::int64_t r = 0; r < image.rows(); ++r)
      for (std::int64_t k = 0; k < classes; ++k)
        logits.data<float>()[r * classes + k] = image.data<float>()[r] + static_cast<float>(k);
    return logits;
  };
}

TEST(SlidingWindow, HoldsTheLinesThatItsBoundSaysAndNoMore) {
  // An eighth of 384^3 with patches of 128^3 along each axis, all 100 classes.
  constexpr std::int64_t kClasses = 100;
  const Field field = Field::random({48, 48, 48}, 1);
  const WindowOptions options{.patch = {16, 16, 16}};
  const std::int64_t bound = window_sum_bytes(plan_windows(field.shape, options), kClasses, 1);
  // Half a patch deep: the lower half of the slab, not finished yet, and what the upper half has begun.
  EXPECT_EQ(bound, (8 * (48 + 16) * 48 * (kClasses + 1) + 16 * 16 * 16) * 4);
  const WindowSource source{.shape = field.shape,
                            .classes = kClasses,
                            .read = [&](const auto& b, const auto& s, auto out) { field.read(b, s, out); }};
  const std::vector<PatchModel> models{counting_model(kClasses)};
  std::atomic<std::int64_t> wrong{0};
  Allocator& allocator = *allocator_of(kCpuDevice);
  allocator.reset_peak();
  const auto workspace = static_cast<std::size_t>(MemoryCategory::kWorkspace);
  const std::int64_t before = allocator.statistics().current[workspace];
  sliding_window(source, options, models, [&](std::int64_t z, std::int64_t y, std::span<const float> logits) {
    for (std::int64_t x = 0; x < 48; ++x)
      for (std::int64_t k = 0; k < kClasses; ++k)
        wrong += std::abs(logits[static_cast<std::size_t>(x * kClasses + k)] - field.at(z, y, x, 0) -
                          static_cast<float>(k)) > 1e-4f;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(allocator.statistics().peak[workspace] - before, bound);
}

TEST(SlidingWindow, OneHundredClassesAt384CubedFitIntoEightGigabytes) {
  const WindowPlan plan = plan_windows({384, 384, 384}, {.patch = {128, 128, 128}});
  EXPECT_EQ(plan.count(), 125);
  const std::int64_t bytes = window_sum_bytes(plan, 100, 1);
  EXPECT_EQ(bytes, (64 * 512 * 384 * std::int64_t{101} + 128 * 128 * 128) * 4);
  // All logits at once would be 22.6 GB. Beside the sums: two answers of a window in FP32, labels, image.
  const std::int64_t rest = 2 * 100 * (std::int64_t{1} << 21) * 4 + 2 * 4 * std::int64_t{384} * 384 * 384;
  EXPECT_LT(bytes + rest, 8'000'000'000);
}

TEST(SlidingWindow, SlicesComeInOrderAndWhole) {
  for (const Index3& shape : {Index3{9, 20, 13}, Index3{3, 30, 7}, Index3{21, 5, 4}})
    for (const std::int64_t batch : {1, 2, 3, 5, 1000}) {
      const Field field = Field::random(shape, 1);
      const WindowOptions options{.patch = {4, 6, 6}, .batch_size = batch};
      const PatchModel model = [](const Tensor& image) { return image; };
      WindowPlan plan = plan_windows(shape, options);
      plan.by_slice = true;
      std::int64_t done = 0;
      std::atomic<std::int64_t> lines{0}, wrong{0};
      Allocator& allocator = *allocator_of(kCpuDevice);
      allocator.reset_peak();
      const auto workspace = static_cast<std::size_t>(MemoryCategory::kWorkspace);
      const std::int64_t before = allocator.statistics().current[workspace];
      const WindowSource source{
          .shape = shape, .read = [&](const auto& b, const auto& s, auto out) { field.read(b, s, out); }};
      sliding_window(
          source, options, {&model, 1},
          [&](std::int64_t z, std::int64_t y, std::span<const float> line) {
            ++lines;
            wrong += z != done;
            for (std::int64_t x = 0; x < shape[2]; ++x)
              wrong += std::abs(line[static_cast<std::size_t>(x)] - field.at(z, y, x, 0)) > 1e-6f;
          },
          [&](std::int64_t z) {
            EXPECT_EQ(z, done);
            EXPECT_EQ(lines, ++done * shape[1]);
          });
      EXPECT_EQ(done, shape[0]);
      EXPECT_EQ(wrong, 0);
      EXPECT_EQ(allocator.statistics().peak[workspace] - before, window_sum_bytes(plan, 1, 1));
    }
}

TEST(SlidingWindow, BatchesAcrossRowsOfWindowsAreCounted) {
  for (const Index3& shape : {Index3{9, 20, 13}, Index3{3, 30, 30}, Index3{12, 12, 4}})
    for (const std::int64_t batch : {1, 2, 3, 5, 1000}) {
      const Field field = Field::random(shape, 1);
      const std::vector<float> result = field.predict({.patch = {4, 6, 6}, .batch_size = batch},
                                                      {[](const Tensor& image) { return image; }});
      for (std::size_t v = 0; v < result.size(); ++v) ASSERT_NEAR(result[v], field.values[v], 1e-6) << batch;
    }
}

}  // namespace
}  // namespace tandem

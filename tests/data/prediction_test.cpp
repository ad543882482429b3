// Sliding windows, blending, mirrored prediction, and the way back to the input's grid.
#include "data/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/rng.h"
#include "data/convert.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::run_python;
using testing::TempFolder;

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
  LogitVolume predict(const WindowOptions& options, const PatchModel& model) const {
    return sliding_window(
        shape, channels, [this](const auto& b, const auto& s, auto out) { read(b, s, out); }, options, model);
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
          const LogitVolume result = field.predict(
              {.patch = {4, 8, 6}, .overlap = .5, .blend = blend, .mirror_axes = {}, .batch_size = batch},
              voxelwise(dtype));
          EXPECT_EQ(result.shape, shape);
          ASSERT_EQ(result.classes, 3);
          ASSERT_EQ(result.values.size(), static_cast<std::size_t>(3 * voxel_count(shape)));
          const double tolerance = dtype == DType::kF32 ? 1e-6 : dtype == DType::kF16 ? 4e-3 : 4e-2;
          for (std::size_t v = 0; v < result.values.size() / 3; ++v) {
            const double expected = field.values[2 * v];
            ASSERT_NEAR(result.values[3 * v], expected, tolerance);
            ASSERT_NEAR(result.values[3 * v + 1], -expected, tolerance);
            ASSERT_NEAR(result.values[3 * v + 2], 2 * expected + 1, 2 * tolerance);
          }
        }
}

TEST(SlidingWindow, OverlapsAreBlendedByTheWeights) {
  // Each window answers with its number: 0, 1, 2 at 0, 2, 4 along x.
  Field field{{1, 1, 8}, 1, std::vector<float>(8)};
  int window = 0;
  const LogitVolume result = field.predict({.patch = {1, 1, 4}}, [&](const Tensor& image) {
    Tensor logits(image.shape().with(1, 1), DType::kF32);
    std::fill_n(logits.data<float>(), 4, static_cast<float>(window));
    ++window;
    return logits;
  });
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
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(result.values[i], expected[i], 1e-6) << i;
}

TEST(SlidingWindow, LargeLogitsStayFinite) {
  // medical.md 4, row 17: FP16 sums of 900 * 10 * 8 overflow.
  Field field{{96, 32, 32}, 1, std::vector<float>(96 * 32 * 32)};
  const LogitVolume result = field.predict({.patch = {32, 32, 32}}, [](const Tensor& image) {
    Tensor logits(image.shape().with(1, 1), DType::kF16);
    std::fill_n(logits.data<Half>(), logits.numel(), to_half(900));
    return logits;
  });
  for (const float value : result.values) ASSERT_NEAR(value, 900, 1e-3);
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
    const LogitVolume result = field.predict({.patch = shape, .mirror_axes = axes}, model);
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
          EXPECT_NEAR(result.values[i], field.values[i] * factor / subsets, 1e-4);
        }
  }
}

TEST(SlidingWindow, ModelsThatAnswerInAnotherShapeAreRefused) {
  const Field field = Field::random({4, 4, 4}, 1);
  EXPECT_THAT(error_of(ErrorKind::kShape,
                       [&] {
                         field.predict({.patch = {4, 4, 4}}, [](const Tensor&) {
                           return Tensor({1, 2, 4, 4, 3}, DType::kF32);
                         });
                       }),
              HasSubstr("got F32 [1, 2, 4, 4, 3] for an image F32 [1, 1, 4, 4, 4]"));
  EXPECT_THAT(error_of(ErrorKind::kShape,
                       [&] {
                         field.predict({.patch = {4, 4, 4}}, [](const Tensor&) {
                           return Tensor({1, 2, 4, 4, 4}, DType::kI32);
                         });
                       }),
              HasSubstr("expected a floating dtype"));
}

TEST(SlidingWindow, LabelsAreTheLargestLogit) {
  const LogitVolume logits{{1, 1, 3}, 3, {0, 2, 1, 5, 5, 5, -3, -2, -1}};
  EXPECT_THAT(logits.labels(), ElementsAre(1, 0, 2));
}

TEST(Prediction, IsWrittenOnTheGridOfTheInput) {
  TD_NEEDS_PYTHON();
  const TempFolder folder;
  run_python(folder, R"(
import sys, numpy as np, nibabel as nib
rng = np.random.default_rng(11)
data = rng.integers(-900, 900, (9, 7, 8)).astype(np.int16)
affine = np.array([[0, 2., 0, 1], [0, 0, -3., 2], [-1.5, 0, 0, 3], [0, 0, 0, 1]])
image = nib.Nifti1Image(data, affine); image.set_sform(affine, 1); image.set_qform(affine, 2); image.header.set_xyzt_units('mm')
nib.save(image, sys.argv[1] + '/ct.nii.gz')
)",
             {folder.path().string()});
  // Predict value > 0 -> class 1, from the NIfTI itself and from a mirrored region of it.
  const auto positive = [](const Tensor& image) {
    Tensor logits(image.shape().with(1, 2), DType::kF32);
    for (std::int64_t r = 0; r < image.rows(); ++r) {
      logits.data<float>()[2 * r] = 0;
      logits.data<float>()[2 * r + 1] = image.data<float>()[r];
    }
    return logits;
  };
  DataOptions options = testing::plain_options();
  options.labels = {{"background", {0}}, {"bright", {40}}};
  ConvertOptions convert{.images = {(folder / "ct.nii.gz").string()},
                         .regions = {parse_region("x=2:6")},
                         .flips = {2},
                         .output = (folder / "ct.h5").string()};
  convert_case(convert);
  for (const std::string name : {"ct.nii.gz", "ct.h5"}) {
    const PreparedCase source(open_case(case_of_file(folder / name)), options, true);
    const LogitVolume logits = predict_case(source, {.patch = {4, 4, 4}}, positive);
    write_prediction(folder / ("out_" + name + ".nii.gz"), source.info(), logits.labels(),
                     LabelMap(options.labels));
  }
  EXPECT_EQ(run_python(folder, R"(
import sys, numpy as np, nibabel as nib
d = sys.argv[1]
a, b, c = (nib.load(f'{d}/{n}') for n in ('ct.nii.gz', 'out_ct.nii.gz.nii.gz', 'out_ct.h5.nii.gz'))
data = np.asanyarray(a.dataobj)
expected = np.where(data > 0, 40, 0)
print(np.array_equal(expected, np.asanyarray(b.dataobj)), b.get_data_dtype())
ras = nib.as_closest_canonical(nib.Nifti1Image(expected.astype(np.uint8), a.affine)).get_fdata()
cut = np.zeros_like(ras); cut[2:6] = ras[2:6]
print(np.array_equal(cut, nib.as_closest_canonical(c).get_fdata()), b.shape == a.shape == c.shape)
for o in (b, c):
    print(np.array_equal(a.affine, o.affine), np.array_equal(a.get_qform(), o.get_qform()), int(o.header['qform_code']), int(o.header['sform_code']), o.header.get_xyzt_units()[0])
)",
                       {folder.path().string()}),
            "True uint8\nTrue True\nTrue True 2 1 mm\nTrue True 2 1 mm\n");
}

TEST(Prediction, WindowOptionsFollowTheJob) {
  const PatchOptions patch{.size = {4, 5, 6}};
  const AugmentOptions augment{.mirror = {"y", "x"}};
  const WindowOptions predict =
      window_options(PredictOptions{.overlap = .25, .mirror_tta = true, .batch_size = 3}, patch, augment);
  EXPECT_EQ(predict.patch, (Index3{4, 5, 6}));
  EXPECT_EQ(predict.overlap, .25);
  EXPECT_EQ(predict.batch_size, 3);
  EXPECT_THAT(predict.mirror_axes, ElementsAre(1, 2));
  EXPECT_TRUE(window_options(ValidateOptions{.mirror_tta = false}, patch, augment).mirror_axes.empty());
}

}  // namespace
}  // namespace tandem

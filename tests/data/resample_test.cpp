// Resampling against scikit-image and SciPy, and the rules of nnU-Net as numbers.
#include "data/resample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/fingerprint.h"
#include "data/patch_dataset.h"
#include "data/prediction.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"
#include "tests/refs/ref_file.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TempFolder;

// medical.md 2.6.
TEST(Resample, ShapesAndTheSeparateAxis) {
  EXPECT_EQ(resampled_shape({30, 512, 512}, {5, .7, .7}, {3, .8, .8}), (Index3{50, 448, 448}));
  EXPECT_EQ(resampled_shape({1, 3, 5}, {1, 1, 1}, {9, 2, 2}), (Index3{1, 2, 2}));  // at least 1; ties to even
  EXPECT_EQ(separate_axis({5, .7, .7}, {3, .8, .8}), 0);
  EXPECT_EQ(separate_axis({2, .7, .7}, {2, .7, .7}), std::nullopt);
  EXPECT_EQ(separate_axis({3, 1, 1}, {1, 1, 1}), std::nullopt);
  EXPECT_EQ(separate_axis({.24, 1.25, 1.25}, {1, 1, 1}), std::nullopt);  // two long axes
  EXPECT_EQ(separate_axis({1, 1, 1}, {1, 1, 4}), 2);                     // of the target
}

struct Sizes {
  const char* name;
  Index3 to;
  std::optional<int> separate;
};
const Sizes kSizes[] = {{"up", {11, 14, 13}, std::nullopt},
                        {"down", {4, 5, 6}, std::nullopt},
                        {"separate", {5, 12, 10}, 0},
                        {"separate_x", {9, 7, 11}, 2},
                        {"half", {7, 9, 4}, std::nullopt}};

std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

double largest_difference(const std::vector<float>& got, const std::vector<double>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(got[i]) - expected[i]));
  return most;
}

TEST(Resample, ImagesAsScikitImage) {
  const tests::RefFile refs("data.ref");
  const std::vector<float> image = floats(refs.values("image"));
  for (const auto& [name, to, separate] : kSizes) {
    const ResamplePlan plan{{7, 9, 8}, to, separate};
    EXPECT_LT(
        largest_difference(resample_values(image, plan, 1, 3), refs.values(std::string(name) + "/image")),
        2e-6)
        << name;
    EXPECT_LT(
        largest_difference(resample_values(image, plan, 1, 1), refs.values(std::string(name) + "/linear")),
        1e-6)
        << name;
    // Several values per voxel: each as if it were alone.
    std::vector<float> two;
    for (const float value : image) two.insert(two.end(), {value, 2 * value});
    const std::vector<float> both = resample_values(two, plan, 2, 1),
                             one = resample_values(image, plan, 1, 1);
    for (std::size_t i = 0; i < one.size(); ++i) {
      ASSERT_EQ(both[2 * i], one[i]);
      ASSERT_EQ(both[2 * i + 1], 2 * one[i]);
    }
  }
}

TEST(Resample, LabelsPerClassAsScikitImage) {
  const tests::RefFile refs("data.ref");
  std::vector<std::uint8_t> labels;
  for (const double value : refs.values("labels")) labels.push_back(static_cast<std::uint8_t>(value));
  for (const auto& [name, to, separate] : kSizes) {
    const std::vector<std::uint8_t> got = resample_classes(labels, {{7, 9, 8}, to, separate});
    const std::vector<double>& expected = refs.values(std::string(name) + "/labels");
    ASSERT_EQ(got.size(), expected.size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < got.size(); ++i) different += got[i] != expected[i];
    EXPECT_EQ(different, 0u) << name;
  }
}

// A ball in a volume of 1.5 x 1 x 2 mm, resampled to 1 mm and back.
void write_ball(const std::filesystem::path& path) {
  const Index3 shape{20, 26, 16};
  Affine affine = affine_of_spacing({1.5, 1, 2});
  affine[3] = 7;
  const Geometry grid(SourceGrid{shape, affine, nifti_space_of(affine)});
  Volume image{grid, 1, {}};
  LabelVolume labels{grid, {}};
  for (std::int64_t z = 0; z < shape[0]; ++z)
    for (std::int64_t y = 0; y < shape[1]; ++y)
      for (std::int64_t x = 0; x < shape[2]; ++x) {
        const double r = std::hypot(1.5 * static_cast<double>(z - 9), static_cast<double>(y - 13),
                                    2.0 * static_cast<double>(x - 7));
        labels.values.push_back(r < 9 ? 1 : 0);
        image.values.push_back(r < 9 ? 100.0f : r < 11 ? 20.0f : 0.0f);
      }
  write_case(path, "ball", image, &labels);
}

TEST(PreparedCase, AnotherSpacingAndBack) {
  const TempFolder folder;
  write_ball(folder / "ball.h5");
  DataOptions options = testing::plain_options();
  options.spacing = {{1, 1, 1}};
  for (const bool crop : {false, true}) {
    options.crop_nonzero = crop;
    const PreparedCase source(open_case(case_of_file(folder / "ball.h5")), options, false);
    EXPECT_EQ(source.shape(), crop ? (Index3{22, 21, 22}) : (Index3{30, 26, 32})) << crop;
    EXPECT_EQ(source.crop_begin(), crop ? (Index3{2, 3, 2}) : (Index3{0, 0, 0}));
    // Volume in mm3 stays, up to the rounding of a surface of 1018 mm2: 4/3 pi 9^3 = 3054.
    EXPECT_NEAR(static_cast<double>(source.foreground().count(1)), 3054, 250);
    const Index3 voxel = source.voxel_of_class(1, 100);
    std::vector<float> image(1);
    std::vector<std::int32_t> label(1);
    source.read_box(voxel, {1, 1, 1}, image, label);
    EXPECT_EQ(label[0], 1);
    // A model that knows the answer: its prediction must land on the source's grid.
    const WindowOptions window{.patch = {16, 16, 16}};
    const PatchModel model = [](const Tensor& input) {
      Tensor output(input.shape().with(1, 2), DType::kF32);
      for (std::int64_t i = 0; i < input.numel(); ++i) {
        const float value = input.data<float>()[i];
        output.data<float>()[2 * i] = 60 - value;
        output.data<float>()[2 * i + 1] = value - 60;
      }
      return output;
    };
    const std::vector<std::int32_t> got =
        predict_case(source, window, std::span(&model, 1), {.classes = 2}).labels;
    const std::vector<std::int32_t> truth = reference_labels(source);
    ASSERT_EQ(got.size(), 20u * 26u * 16u);
    std::int64_t both = 0, sum = 0;
    for (std::size_t i = 0; i < got.size(); ++i) both += got[i] * truth[i], sum += got[i] + truth[i];
    EXPECT_GT(2.0 * static_cast<double>(both) / static_cast<double>(sum), 0.97) << crop;
  }
}

// medical.md 2.6: CT with lo -40, hi 180, mean 60, sd 30.
TEST(Fingerprint, CtNormalisationByGivenNumbers) {
  ChannelStatistics statistics({.kind = NormalizeKind::kCt, .clip = {{-40, 180}}, .mean = 60, .std = 30});
  const float values[] = {-1100, -50, 40, 60, 300};
  statistics.add_slice(values, 0, 5, "a");
  const double expected[] = {-3.3333, -3.3333, -.6667, 0, 4};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(statistics.scale()(values[i]), expected[i], 5e-5);
}

TEST(Fingerprint, ForegroundOfTheTrainingSetOnly) {
  const TempFolder folder;
  const auto label_of = [](const Index3& at) { return at[0] == 1 ? 1 : 0; };
  testing::write_counting_case(folder / "a.h5", {2, 10, 10}, label_of);  // foreground 100 .. 199
  testing::write_counting_case(folder / "b.h5", {2, 10, 20}, label_of);  // 200 .. 399
  testing::write_counting_case(folder / "val.h5", {3, 100, 10}, label_of);
  DataOptions data = testing::plain_options({(folder / "a.h5").string(), (folder / "b.h5").string()});
  data.validation = {(folder / "val.h5").string()};
  data.normalize = {{.channel = 0, .kind = NormalizeKind::kCt}};
  EXPECT_THAT(error_of(ErrorKind::kConfig, [&] { PatchDataset(data, {}, {}); }),
              HasSubstr("without mean and std"));
  const NormalizeOptions found = with_fingerprint(data).normalize[0];
  // Both cases have the same weight, so a's 100 .. 199 (mean 149.5, variance (100^2 - 1) / 12) count twice
  // beside b's 200 .. 399 (299.5, (200^2 - 1) / 12). Of the 400 sorted values the percentiles lie at .005 *
  // 399 = 1.995, between the second 100 and the first 101, and at 397.005, between 397 and 398.
  EXPECT_NEAR(*found.mean, (149.5 + 299.5) / 2, 1e-9);
  EXPECT_NEAR(*found.std, std::sqrt(((100.0 * 100 - 1) / 12 + (200.0 * 200 - 1) / 12) / 2 + 75.0 * 75), 1e-9);
  EXPECT_NEAR((*found.clip)[0], 100.995, 1e-4);
  EXPECT_NEAR((*found.clip)[1], 397.005, 1e-4);
  data.normalize[0].clip = {{0, 1000}};
  EXPECT_EQ((*with_fingerprint(data).normalize[0].clip)[1], 1000);  // what was written stays
  data.labels = {{"background", {0, 1}}, {"a", {2}}};
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { with_fingerprint(data); }),
              HasSubstr("got no foreground voxel"));
}

// The models of all folds can be averaged: nnU-Net measures the cases of all of them.
TEST(Fingerprint, AllFoldsHaveTheSameNumbers) {
  const TempFolder folder;
  const auto label_of = [](const Index3& at) { return at[0] == 1 ? 1 : 0; };
  std::vector<std::string> files;
  for (const char* name : {"a.h5", "b.h5", "c.h5"}) {
    testing::write_counting_case(folder / name, {2, 10, 10 + 7 * static_cast<std::int64_t>(files.size())},
                                 label_of);
    files.push_back((folder / name).string());
  }
  DataOptions data = testing::plain_options(files);
  data.normalize = {{.channel = 0, .kind = NormalizeKind::kCt}};
  const NormalizeOptions whole = with_fingerprint(data).normalize[0];
  data.split.folds = 3;
  for (const std::int64_t fold : {0, 1, 2}) {
    data.split.fold = fold;
    EXPECT_EQ(with_fingerprint(data).normalize[0], whole) << fold;
  }
  data.split = {.ratios = std::vector<double>{0.67, 0.33}};
  EXPECT_NE(with_fingerprint(data).normalize[0], whole);
}

TEST(Normalize, Percentiles) {
  std::vector<float> values;
  for (int i = 0; i <= 1000; ++i) values.push_back(static_cast<float>((i * 8) % 1001));
  std::vector<float> copy = values;
  EXPECT_DOUBLE_EQ(percentile(copy, 50), 500);
  EXPECT_DOUBLE_EQ(percentile(copy, 0.25), 2.5);
  ChannelStatistics statistics({.kind = NormalizeKind::kPercentile});
  statistics.add_slice(values, 0, 1001, "a");
  const ChannelScale scale = statistics.scale();
  EXPECT_EQ(scale(5), 0);
  EXPECT_EQ(scale(-1000), 0);
  EXPECT_EQ(scale(995), 1);
  EXPECT_NEAR(scale(500), 0.5, 1e-6);
}

}  // namespace
}  // namespace tandem

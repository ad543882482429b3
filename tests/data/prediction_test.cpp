// Labels and probabilities of whole cases, and their files on the input's grid, read back with nibabel and
// h5py.
#include "data/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/convert.h"
#include "data/prediction_file.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::run_python;
using testing::TempFolder;

// The same logits at every voxel.
PatchModel constant_model(const std::vector<float>& logits) {
  return [logits](const Tensor& image) {
    Tensor result(image.shape().with(1, static_cast<std::int64_t>(logits.size())), DType::kF32);
    for (std::int64_t r = 0; r < image.rows(); ++r)
      std::copy(logits.begin(), logits.end(),
                result.data<float>() + r * static_cast<std::int64_t>(logits.size()));
    return result;
  };
}

class PredictCase : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_counting_case(folder_ / "case.h5", {3, 4, 5}, [](const Index3&) { return 0; });
  }
  CasePrediction predict(const std::vector<PatchModel>& models, const PredictionRequest& request) const {
    const PreparedCase source =
        prepare_whole_case(open_case(case_of_file(folder_ / "case.h5")), testing::plain_options());
    return predict_case(source, {.patch = {2, 4, 4}}, models, request);
  }
  TempFolder folder_;
};

TEST_F(PredictCase, LabelsAreTheLargestLogitTheLowestOfEqualOnes) {
  EXPECT_THAT(predict({constant_model({0, 2, 1})}, {.classes = 3}).labels, ::testing::Each(1));
  EXPECT_THAT(predict({constant_model({5, 5, 5})}, {.classes = 3}).labels, ::testing::Each(0));
  EXPECT_THAT(predict({constant_model({-3, -2, -1})}, {.classes = 3}).labels, ::testing::Each(2));
  EXPECT_FALSE(predict({constant_model({0, 1})}, {.classes = 2}).probabilities.has_value());
}

TEST_F(PredictCase, AnEnsembleAveragesProbabilitiesNotLogits) {
  // One model is sure of class 1, two lean to class 0: the mean logit says 1, the mean probability 0.
  const std::vector<PatchModel> models{constant_model({0, 10}), constant_model({3, 0}),
                                       constant_model({3, 0})};
  const CasePrediction result = predict(models, {.classes = 2, .probabilities = true});
  EXPECT_THAT(result.labels, ::testing::Each(0));
  EXPECT_THAT(predict(models, {.classes = 2}).labels, ::testing::Each(0));
  const double one = (1 / (1 + std::exp(-10.0)) + 2 / (1 + std::exp(3.0))) / 3;
  ASSERT_EQ(result.probabilities->channels, 2);
  for (std::size_t v = 0; v < 60; ++v) {
    EXPECT_NEAR(result.probabilities->values[60 + v], one, 1e-6);
    EXPECT_NEAR(result.probabilities->values[v], 1 - one, 1e-6);
  }
}

// Outputs of regions are independent: the mean of each model's sigmoid, and the last region above one half.
TEST_F(PredictCase, AnEnsembleOfRegionsAveragesSigmoids) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const PredictionRequest request{.classes = 3, .probabilities = true, .region_classes = {1, 2, 3}};
  // The second region's mean logit is positive, its mean probability is below one half; the third's are the
  // other way round.
  const std::vector<PatchModel> models{constant_model({2, 9, -9}), constant_model({-1, -2, 2}),
                                       constant_model({-1, -2, 2})};
  const CasePrediction result = predict(models, request);
  EXPECT_THAT(result.labels, ::testing::Each(3));
  ASSERT_TRUE(result.probabilities);
  EXPECT_EQ(result.probabilities->channels, 3);
  const double expected[] = {(sigmoid(2) + 2 * sigmoid(-1)) / 3, (sigmoid(9) + 2 * sigmoid(-2)) / 3,
                             (sigmoid(-9) + 2 * sigmoid(2)) / 3};
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t v = 0; v < 60; ++v)
      ASSERT_NEAR(result.probabilities->values[r * 60 + v], expected[r], 1e-6) << r << " " << v;
  const std::vector<PatchModel> two{constant_model({4, 1, 9}), constant_model({-1, 1, -9.5f})};
  EXPECT_THAT(predict(two, request).labels, ::testing::Each(2));  // .63, .73, just below .5
  EXPECT_THAT(predict({constant_model({-1, -2, -3})}, request).labels, ::testing::Each(0));
}

TEST_F(PredictCase, ProbabilitiesOfExtremeLogitsAreFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const CasePrediction wins =
      predict({constant_model({1, infinity, 3})}, {.classes = 3, .probabilities = true});
  EXPECT_THAT(wins.labels, ::testing::Each(1));
  EXPECT_EQ(wins.probabilities->values[60], 1);
  EXPECT_EQ(wins.probabilities->values[0], 0);
  const CasePrediction large =
      predict({constant_model({900, 890, -900})}, {.classes = 3, .probabilities = true});
  EXPECT_NEAR(large.probabilities->values[0], 1 / (1 + std::exp(-10.0)), 1e-6);
}

TEST_F(PredictCase, NanIsAnErrorAndNoLabel) {
  EXPECT_THAT(error_of(ErrorKind::kNumeric,
                       [&] {
                         predict({constant_model({0, std::nanf("")})}, {.classes = 2});
                       }),
              HasSubstr("not a number at 60 of 120 logits"));
}

TEST_F(PredictCase, ItsBoundCountsSumsLabelsAndProbabilities) {
  const WindowOptions window{.patch = {2, 4, 4}};
  const std::int64_t sums = window_sum_bytes(plan_windows({3, 4, 5}, window), 3, 2);
  const GridPlacement same{{3, 4, 5}, {}, {{3, 4, 5}, {3, 4, 5}, {}}};
  const PredictionBytes labels = prediction_bytes(same, window, 2, {.classes = 3});
  EXPECT_EQ(labels.sums, sums);
  EXPECT_EQ(labels.total(), sums + 60 * 4);
  EXPECT_EQ(prediction_bytes(same, window, 2, {.classes = 3, .probabilities = true}).result, 60 * 16);
}

TEST_F(PredictCase, WholeCasesAreKeptInMemoryWhereTheCacheAllows) {
  // The file may go once the case is in memory.
  DataOptions options = testing::plain_options();
  const auto read = [&] {
    const PreparedCase source = prepare_whole_case(open_case(case_of_file(folder_ / "case.h5")), options);
    std::filesystem::resize_file(folder_ / "case.h5", 0);
    std::vector<float> values(60);
    source.read_box({0, 0, 0}, {3, 4, 5}, values, {});
    return values[59];
  };
  EXPECT_EQ(read(), 59);
  SetUp();
  options.cache = CacheKind::kNone;
  EXPECT_ANY_THROW(read());
  SetUp();
  options = testing::plain_options();
  options.cache_bytes = 60 * 5 - 1;
  EXPECT_ANY_THROW(read());
}

// An image with permuted and mirrored axes, codes and units; and what is read back of its predictions.
constexpr const char* kMakeImage = R"(
import sys, numpy as np, nibabel as nib
rng = np.random.default_rng(11)
data = rng.integers(-900, 900, (9, 7, 8)).astype(np.int16)
affine = np.array([[0, 2., 0, 1], [0, 0, -3., 2], [-1.5, 0, 0, 3], [0, 0, 0, 1]])
image = nib.Nifti1Image(data, affine); image.set_sform(affine, 1); image.set_qform(affine, 2); image.header.set_xyzt_units('mm')
nib.save(image, sys.argv[1] + '/ct.nii.gz')
)";
constexpr const char* kReadBack = R"(
import sys, h5py, numpy as np, nibabel as nib
d = sys.argv[1]
a, b, c = (nib.load(f'{d}/{n}') for n in ('ct.nii.gz', 'out_ct.nii.gz.nii.gz', 'out_ct.h5.nii.gz'))
data = np.asanyarray(a.dataobj)
expected = np.where(data > 0, 40, 0)
print(np.array_equal(expected, np.asanyarray(b.dataobj)), b.get_data_dtype())
ras = nib.as_closest_canonical(nib.Nifti1Image(expected.astype(np.uint8), a.affine)).get_fdata()
cut = np.zeros_like(ras); cut[2:6] = ras[2:6]
print(np.array_equal(cut, nib.as_closest_canonical(c).get_fdata()), b.shape == a.shape == c.shape)
p, q = (nib.load(f'{d}/{n}') for n in ('p_ct.nii.gz.nii.gz', 'p_ct.h5.nii.gz'))
for o in (b, c, p, q):
    print(np.array_equal(a.affine, o.affine), np.array_equal(a.get_qform(), o.get_qform()), int(o.header['qform_code']), int(o.header['sform_code']), o.header.get_xyzt_units()[0])
sigmoid = 1 / (1 + np.exp(-np.clip(data, -500, 500).astype(np.float64)))
print('nifti', p.shape, p.get_data_dtype(), np.abs(p.get_fdata()[..., 1] - sigmoid).max() < 1e-6, np.abs(p.get_fdata().sum(-1) - 1).max() < 1e-6)
f, g, h = (h5py.File(f'{d}/{n}')['predictions'] for n in ('out_ct.nii.gz.h5', 'p_ct.nii.gz.h5', 'out_ct.h5.h5'))
raw = h5py.File(f'{d}/ct.h5')['raw']
print('stored grid', f.dtype, np.array_equal(f[...].T, expected), np.allclose(f.attrs['affine'], a.affine))
print('probabilities', g.shape, g.dtype, np.abs(g[1].T - sigmoid).max() < 1e-6)
print('case grid', h.shape == raw.shape, np.array_equal(h[...], np.where(raw[...] > 0, 40, 0)), np.array_equal(h.attrs['affine'], raw.attrs['affine']),
      np.array_equal(h.attrs['spacing'], raw.attrs['spacing']), [n.decode() for n in h.attrs['class_names']], h.attrs['class_values'].tolist(), h.attrs['case_id'][0] == raw.attrs['case_id'][0])
print(sorted(h5py.File(f'{d}/ct.h5').keys()))
inside = nib.as_closest_canonical(q).get_fdata()
print('outside', (inside[6:, :, :, 0] == 1).all(), (inside[6:, :, :, 1] == 0).all())
)";

// Predicts value > 0 as class 1, and writes labels and probabilities of `name` in every form.
void write_all_forms(const TempFolder& folder, const std::string& name) {
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
  const PreparedCase source(open_case(case_of_file(folder / name)), options, true);
  const CasePrediction result = predict_case(source, {.patch = {4, 4, 4}}, std::vector<PatchModel>{positive},
                                             {.classes = 2, .probabilities = true});
  const LabelMap labels(options.labels);
  for (const std::string form : {".nii.gz", ".h5"}) {
    write_prediction(folder / ("out_" + name + form), source.info(), result.labels, labels);
    write_probabilities(folder / ("p_" + name + form), source.info(), *result.probabilities, labels);
  }
}

TEST(Prediction, IsWrittenOnTheGridOfTheInput) {
  TD_NEEDS_PYTHON("nibabel");
  const TempFolder folder;
  run_python(folder, kMakeImage, {folder.path().string()});
  ConvertOptions convert{.images = {(folder / "ct.nii.gz").string()},
                         .regions = {parse_region("x=2:6")},
                         .flips = {2},
                         .output = (folder / "ct.h5").string()};
  convert_case(convert);
  write_all_forms(folder, "ct.nii.gz");
  write_all_forms(folder, "ct.h5");  // a mirrored region of it
  EXPECT_EQ(
      run_python(folder, kReadBack, {folder.path().string()}),
      "True uint8\nTrue True\nTrue True 2 1 mm\nTrue True 2 1 mm\nTrue True 2 1 mm\nTrue True 2 1 mm\n"
      "nifti (9, 7, 8, 2) float32 True True\n"
      "stored grid uint16 True True\nprobabilities (2, 8, 7, 9) float32 True\n"
      "case grid True True True True ['background', 'bright'] [0, 40] True\n['raw']\noutside True True\n");
}

TEST(PredictionFile, LabelValuesThatDoNotFitSixteenBitsAreWrittenInThirtyTwo) {
  TD_NEEDS_PYTHON("h5py");
  const TempFolder folder;
  const CaseInfo info{.file = "case.h5", .id = "case", .geometry = testing::plain_grid({1, 2, 2})};
  write_prediction(folder / "big.h5", info, {0, 1, 0, 1},
                   LabelMap(std::vector<LabelClass>{{"background", {0}}, {"a", {-70000}}}));
  EXPECT_EQ(run_python(folder, R"(
import sys, h5py
f = h5py.File(sys.argv[1] + '/big.h5')['predictions']
print(f.dtype, f[...].tolist())
)",
                       {folder.path().string()}),
            "int32 [[[0, -70000], [0, -70000]]]\n");
}

// A channel per region, no background, nothing outside a cut region.
TEST(PredictionFile, ProbabilitiesOfRegionsHaveTheRegionsAsChannels) {
  TD_NEEDS_PYTHON("nibabel");
  const TempFolder folder;
  run_python(folder, kMakeImage, {folder.path().string()});
  ConvertOptions convert{.images = {(folder / "ct.nii.gz").string()},
                         .regions = {parse_region("x=2:6")},
                         .output = (folder / "ct.h5").string()};
  convert_case(convert);
  DataOptions data = testing::plain_options();
  data.labels = {{"background", {0}}, {"oedema", {4}}, {"core", {5}}};
  data.regions = {{"whole", {4, 5}}, {"inner", {5}}};
  const LabelMap labels(data);
  const PreparedCase source(open_case(case_of_file(folder / "ct.h5")), data, true);
  PredictionRequest request = prediction_request(labels);
  request.probabilities = true;
  const CasePrediction result =
      predict_case(source, {.patch = {4, 4, 4}}, std::vector<PatchModel>{constant_model({1, -1})}, request);
  for (const char* name : {"p.h5", "p.nii.gz"})
    write_probabilities(folder / name, source.info(), *result.probabilities, labels);
  EXPECT_EQ(run_python(folder, R"(
import sys, h5py, nibabel as nib, numpy as np
d = sys.argv[1]
f = h5py.File(d + '/p.h5')['predictions']
print(f.shape[0], [n.decode() for n in f.attrs['class_names']], f.attrs['class_values'].tolist(), np.unique(np.round(f[0], 4)), np.unique(np.round(f[1], 4)))
p = nib.as_closest_canonical(nib.load(d + '/p.nii.gz')).get_fdata()
print(p.shape[3], [np.unique(np.round(p[2:6, ..., r], 4)).tolist() for r in (0, 1)], np.abs(p[:2]).max(), np.abs(p[6:]).max())
)",
                       {folder.path().string()}),
            "2 ['whole', 'inner'] [4, 5] [0.7311] [0.2689]\n2 [[0.7311], [0.2689]] 0.0 0.0\n");
}

TEST(PredictionFile, OtherEndingsAreRefused) {
  for (const char* name : {"a.nii", "a.nii.gz", "b.h5", "dir/b.hdf5"})
    EXPECT_NO_THROW(check_prediction_name(name));
  EXPECT_THAT(error_of(ErrorKind::kUsage, [] { check_prediction_name("labels.png"); }),
              HasSubstr("got labels.png, expected a name that ends in .nii, .nii.gz, .h5"));
}

TEST(Prediction, WindowOptionsFollowTheJob) {
  const PatchOptions patch{.size = {4, 5, 6}};
  const AugmentOptions augment{.mirror = {"y", "x"}};
  const WindowOptions predict = window_options(
      PredictOptions{.overlap = .25, .mirror_tta = {.on = true}, .batch_size = 3}, patch, augment);
  EXPECT_EQ(predict.patch, (Index3{4, 5, 6}));
  EXPECT_EQ(predict.overlap, .25);
  EXPECT_EQ(predict.batch_size, 3);
  EXPECT_THAT(predict.mirror_axes, ElementsAre(1, 2));
  EXPECT_TRUE(
      window_options(ValidateOptions{.mirror_tta = {.on = false}}, patch, augment).mirror_axes.empty());
  const PredictOptions chosen{.mirror_tta = {.on = true, .axes = std::vector<std::string>{"z"}}};
  EXPECT_THAT(window_options(chosen, patch, augment).mirror_axes, ElementsAre(0));
}

}  // namespace
}  // namespace tandem

// nnU-Net's raw data folder and splits, made in a temporary folder as its documentation describes them.
#include "data/nnunet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "data/check.h"
#include "data/hdf5_file.h"
#include "data/nifti.h"
#include "data/patch_dataset.h"
#include "data/prediction.h"
#include "data/split.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"
#include "tests/refs/ref_file.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr Index3 kShape{4, 5, 6};

// A folder with cases c0 .. c<n-1> of two channels, labels 0, 1, 2 and 3 in turn.
void write_dataset(const std::filesystem::path& folder, int cases, const std::string& json) {
  std::filesystem::create_directories(folder / "imagesTr");
  std::filesystem::create_directories(folder / "labelsTr");
  for (int i = 0; i < cases; ++i) {
    Volume image{testing::plain_grid(kShape), 1, std::vector<float>(120, static_cast<float>(i))};
    image.values[5] = 40;
    LabelVolume labels{testing::plain_grid(kShape), {}};
    for (int v = 0; v < 120; ++v) labels.values.push_back(v % 4);
    const std::string id = fmt::format("c{}", i);
    write_nifti(folder / "imagesTr" / (id + "_0000.nii.gz"), image);
    image.values[7] = 50;
    write_nifti(folder / "imagesTr" / (id + "_0001.nii.gz"), image);
    write_nifti(folder / "labelsTr" / (id + ".nii.gz"), labels);
  }
  testing::write_bytes(folder / "dataset.json", json);
}

std::string dataset_json(const std::string& labels, int cases, const std::string& more = "") {
  return fmt::format(
      "{{\"channel_names\": {{\"0\": \"CT\", \"1\": \"PET\"}}, \"labels\": {}, \"numTraining\": {}, "
      "\"file_ending\": \".nii.gz\"{}}}",
      labels, cases, more);
}

DataOptions options_of(const std::filesystem::path& folder) {
  DataOptions data;
  data.format = "nnunet";
  data.train = {folder.string()};
  complete_from_nnunet(data);
  return data;
}

TEST(Nnunet, AFolderGivesLabelsChannelsAndCases) {
  const TempFolder folder;
  write_dataset(folder.path(), 2, dataset_json(R"({"background": 0, "b": 2, "a": 1, "c": 3})", 2));
  const DataOptions data = options_of(folder.path());
  ASSERT_EQ(data.classes(), 4);
  EXPECT_EQ(data.labels[1].name, "b");  // the order of the file
  EXPECT_THAT(data.labels[1].values, ElementsAre(2));
  ASSERT_EQ(data.normalize.size(), 2u);
  EXPECT_EQ(data.normalize[0].kind, NormalizeKind::kCt);
  EXPECT_EQ(data.normalize[1].kind, NormalizeKind::kZscore);
  const std::vector<CaseEntry> cases = training_cases(data);
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[1].id, "c1");
  EXPECT_EQ(cases[1].images.size(), 2u);
  const std::unique_ptr<VoxelSource> source = open_case(cases[1]);
  EXPECT_EQ(source->info().channels, 2);
  std::vector<float> box(2 * 3);
  source->read_image({0, 0, 5}, {1, 1, 1}, std::span(box).first(2));
  EXPECT_THAT(std::span(box).first(2), ElementsAre(40, 40));
  source->read_image({0, 1, 0}, {1, 1, 3}, box);
  EXPECT_THAT(box, ElementsAre(1, 1, 1, 1, 50, 1));
  EXPECT_EQ(check_data(data, {}).errors(), 0);
}

TEST(Nnunet, RegionsBecomeClassesAndAnOrder) {
  const TempFolder folder;
  write_dataset(
      folder.path(), 1,
      dataset_json(R"({"background": 0, "whole": [1, 2, 3], "core": [2, 3], "enhancing": 3, "ignore": 4})", 1,
                   R"(, "regions_class_order": [1, 2, 3])"));
  const DataOptions data = options_of(folder.path());
  EXPECT_EQ(data.classes(), 4);
  EXPECT_EQ(data.outputs(), 3);
  EXPECT_EQ(data.regions[1].name, "core");
  EXPECT_THAT(data.regions[1].values, ElementsAre(2, 3));
  EXPECT_THAT(data.region_values, ElementsAre(1, 2, 3));
  EXPECT_EQ(data.ignore_label, 4);
  const LabelMap labels(data);
  EXPECT_THAT(labels.output_names(), ElementsAre("background", "whole", "core", "enhancing"));
  EXPECT_EQ(labels.region_class(1), 2);
  EXPECT_THAT(labels.output_values(), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(labels.in_region(1, 2));
  EXPECT_FALSE(labels.in_region(1, 1));
}

TEST(Nnunet, RegionsAreTargetsOfTheirOwnAndDecodedInTheirOrder) {
  const TempFolder folder;
  testing::write_counting_case(folder / "a.h5", {1, 1, 5},
                               [](const Index3& at) { return static_cast<std::int32_t>(at[2]); });
  DataOptions data = testing::plain_options({(folder / "a.h5").string()});
  data.labels = {{"background", {0}}, {"a", {1}}, {"b", {2}}, {"c", {3}}};
  data.regions = {{"whole", {1, 2, 3}}, {"core", {2, 3}}};
  data.ignore_label = 4;
  const Sample sample = PatchDataset(data, {.size = {1, 1, 5}}, {}).get(0, {});
  EXPECT_EQ(sample.label.shape(), (Shape{1, 2, 1, 1, 5}));
  EXPECT_THAT(sample.label.to_values(), ElementsAre(0, 1, 1, 1, -1, 0, 0, 1, 1, -1));
  const LabelMap labels(data);
  EXPECT_EQ(labels.region_class(0), 1);  // the value that core has not
  EXPECT_EQ(labels.region_class(1), 2);  // 2 and 3: the first
  const PatchModel model = [](const Tensor& input) {
    Tensor output(input.shape().with(1, 2), DType::kF32);
    for (std::int64_t i = 0; i < input.numel(); ++i)
      for (std::int64_t r = 0; r < 2; ++r)
        output.data<float>()[2 * i + r] = input.data<float>()[i] - 0.5f - static_cast<float>(r);
    return output;
  };
  const PreparedCase source(open_case(case_of_file(folder / "a.h5")), data, true);
  EXPECT_THAT(
      predict_case(source, {.patch = {1, 1, 5}}, std::span(&model, 1), prediction_request(labels)).labels,
      ElementsAre(0, 1, 2, 2, 2));
  data.region_values = {1, 9};
  EXPECT_THAT(error_of(ErrorKind::kConfig, [&] { LabelMap{data}; }),
              HasSubstr("got value 9 for region 'core'"));
}

TEST(Nnunet, IgnoredVoxelsAndWeights) {
  const TempFolder folder;
  Hdf5File file = Hdf5File::create_image();
  const std::int64_t shape[] = {1, 2, 4};
  file.write<float>("/raw", shape, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  file.write<std::uint8_t>("/label", shape, std::vector<std::uint8_t>{9, 9, 9, 1, 9, 9, 0, 9});
  file.write<float>("/weight", shape, std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
  const std::vector<std::byte> image = file.image();
  testing::write_bytes(folder / "a.h5", {reinterpret_cast<const char*>(image.data()), image.size()});
  DataOptions data = testing::plain_options({(folder / "a.h5").string()});
  data.ignore_label = 9;
  const PatchDataset dataset(data, {.size = {1, 2, 4}, .foreground = 0}, {});
  const Sample sample = dataset.get(0, {});
  EXPECT_THAT(sample.label.to_values(), ElementsAre(-1, -1, -1, 1, -1, -1, 0, -1));
  EXPECT_THAT(sample.weight.to_values(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  // Patches that are not forced lie around voxels that somebody labelled: (0, 0, 3) and (0, 1, 2).
  const PatchDataset small(data, {.size = {1, 1, 1}, .foreground = 0}, {});
  std::set<double> seen;
  for (std::uint64_t s = 0; s < 50; ++s) {
    const Sample one = small.get(0, {.seed = 3, .epoch = s});
    EXPECT_GE(one.label.to_values()[0], 0);
    seen.insert(one.weight.to_values()[0]);
  }
  EXPECT_EQ(seen, (std::set<double>{3, 6}));
}

TEST(Nnunet, TheListOfFilesInDatasetJson) {
  const TempFolder folder;
  write_dataset(folder.path(), 2, "");
  std::filesystem::rename(folder / "imagesTr", folder / "elsewhere");
  testing::write_bytes(folder / "dataset.json",
                       dataset_json(R"({"background": 0, "a": 1})", 1, R"(, "dataset": {"first":
    {"images": ["elsewhere/c1_0000.nii.gz", "./elsewhere/c0_0001.nii.gz"], "label": "labelsTr/c1.nii.gz"}})"));
  const std::vector<CaseEntry> cases = read_nnunet_dataset(folder.path()).training;
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].id, "first");
  EXPECT_EQ(cases[0].images[1], (folder / "elsewhere" / "c0_0001.nii.gz").string());
}

TEST(Nnunet, MistakesNameFileKeyGotAndExpected) {
  const TempFolder folder;
  const std::string good = R"({"background": 0, "a": 1})";
  const std::pair<std::string, const char*> cases[] = {
      {"{", "got no valid JSON"},
      {"[]", "channel_names: got nothing, expected"},
      {R"({"channel_names": {"1": "CT"}})", "expected a text for each number from \"0\" to \"0\""},
      {dataset_json(R"({"0": "background"})", 1), "form of nnU-Net version 1"},
      {dataset_json(R"({"a": 1})", 1), "expected \"background\": 0 first"},
      {dataset_json(R"({"background": 0, "a": 1.5})", 1),
       "labels.a: got 1.5, expected a whole number from 0 to 255"},
      {dataset_json(R"({"background": 0, "a": 1, "ignore": 7})", 1), "labels.ignore: got 7, expected 2"},
      {dataset_json(R"({"background": 0, "a": [1, 2]})", 1),
       "regions_class_order: got nothing, expected a list of 1"},
      {dataset_json(good, 3), "numTraining: got 3, expected 1"},
      {R"({"channel_names": {"0": "CT", "1": "b"}, "labels": {"background": 0, "a": 1}, "numTraining": 1})",
       "file_ending: got nothing"},
      {R"({"channel_names": {"0": "CT", "1": "b", "2": "c"}, "labels": {"background": 0, "a": 1}, "numTraining": 1, )"
       R"("file_ending": ".nii.gz"})",
       "c0_0002.nii.gz: got no such file, expected channel 2 of case c0"},
  };
  for (const auto& [json, expected] : cases) {
    write_dataset(folder.path(), 1, json);
    EXPECT_THAT(error_of(ErrorKind::kData, [&] { read_nnunet_dataset(folder.path()); }), HasSubstr(expected))
        << json;
  }
}

std::vector<std::string> ids_of(const std::vector<CaseEntry>& cases) {
  std::vector<std::string> ids;
  for (const CaseEntry& entry : cases) ids.push_back(entry.id);
  return ids;
}

TEST(Split, FoldsAreThoseOfScikitLearn) {
  const tests::RefFile refs("data.ref");
  const TempFolder folder;
  for (int i = 0; i < 20; ++i) testing::write_bytes(folder / fmt::format("c{:02}.h5", i), "");
  DataOptions data = testing::plain_options({folder.path().string()});
  data.split.folds = 5;
  std::set<std::string> held_out;
  for (int fold = 0; fold < 5; ++fold) {
    data.split.fold = fold;
    const CaseSets sets = case_sets(data);
    std::vector<std::string> expected;
    for (const double index : refs.values(fmt::format("kfold/20/5/{}", fold)))
      expected.push_back(fmt::format("c{:02}", static_cast<int>(index)));
    EXPECT_EQ(ids_of(sets.validation), expected) << fold;
    EXPECT_EQ(sets.train.size(), 16u);
    held_out.insert(expected.begin(), expected.end());
  }
  EXPECT_EQ(held_out.size(), 20u);
  data.split.folds = 21;
  EXPECT_THAT(error_of(ErrorKind::kConfig, [&] { case_sets(data); }),
              HasSubstr("got 21, expected at most 20"));
}

TEST(Split, GroupsStayTogetherAndRatiosAreShares) {
  const TempFolder folder;
  for (int i = 0; i < 12; ++i) testing::write_bytes(folder / fmt::format("p{}_scan{}.h5", i / 3, i % 3), "");
  DataOptions data = testing::plain_options({folder.path().string()});
  data.split.ratios = {0.5, 0.25, 0.25};
  data.split.group = "_";
  const CaseSets sets = case_sets(data);
  EXPECT_EQ(sets.train.size(), 6u);
  EXPECT_EQ(sets.validation.size(), 3u);
  EXPECT_EQ(sets.test.size(), 3u);
  EXPECT_EQ(sets.validation[0].id.substr(0, 2), sets.validation[2].id.substr(0, 2));
  EXPECT_EQ(ids_of(validation_cases(data)), ids_of(sets.validation));
}

TEST(Split, SplitsFinalJson) {
  const TempFolder folder;
  for (const char* id : {"a", "b", "c"}) testing::write_bytes(folder / fmt::format("{}.h5", id), "");
  DataOptions data = testing::plain_options({folder.path().string()});
  data.split.file = (folder / "splits_final.json").string();
  data.split.fold = 1;
  const auto write = [&](const std::string& json) {
    testing::write_bytes(folder / "splits_final.json", json);
  };
  write(R"([{"train": ["a"], "val": ["b"]}, {"train": ["c", "a"], "val": ["b"]}])");
  EXPECT_THAT(ids_of(training_cases(data)), ElementsAre("c", "a"));
  EXPECT_THAT(ids_of(validation_cases(data)), ElementsAre("b"));
  write(R"([{"train": ["a"], "val": ["b"]}])");
  EXPECT_THAT(error_of(ErrorKind::kConfig, [&] { case_sets(data); }), HasSubstr("got 1, expected 0 to 0"));
  data.split.fold = 0;
  write(R"([{"train": ["a", "x"], "val": ["y"]}])");
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { case_sets(data); }),
              HasSubstr("got cases x, y, expected cases of"));
  write(R"([{"train": ["a", "b"], "val": ["b"]}])");
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { case_sets(data); }), HasSubstr("got case b in train and val"));
  write(R"([{"train": ["a"]}])");
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { case_sets(data); }),
              HasSubstr("expected an object with lists"));
}

}  // namespace
}  // namespace tandem

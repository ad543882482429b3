// validation/ of a run folder: what is written comes back, and only the newest stays.
#include "train/validation_folder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/test_files.h"

namespace tandem {
namespace {

using testing::TempFolder;
using testing::write_bytes;

CaseRecord sample_case(const std::string& id, double dice) {
  const std::string png = encode_png(Picture(2, 2));
  return {
      .id = id,
      .mean_dice = dice,
      .metrics = {{"dice", {{"z", dice}, {"a", NAN}}}, {"iou", {{"z", 0.25}}}},
      .pictures = {{.plane = "axial", .index = 3, .png = {png, png, png}, .width_mm = 20, .height_mm = 10}}};
}

TEST(ValidationFolder, WhatIsWrittenComesBack) {
  const TempFolder folder;
  write_validation(folder.path(), {.step = 20, .cases = {sample_case("a <b>", 0.5), sample_case("c", NAN)}});
  const auto record = read_validation(folder.path());
  ASSERT_TRUE(record);
  EXPECT_EQ(record->step, 20);
  ASSERT_EQ(record->cases.size(), 2u);
  const CaseRecord& one = record->cases[0];
  EXPECT_EQ(one.id, "a <b>");
  EXPECT_EQ(one.mean_dice, 0.5);
  ASSERT_EQ(one.metrics.size(), 2u);
  EXPECT_EQ(one.metrics[0].second[0], (std::pair<std::string, double>{"z", 0.5}));
  EXPECT_TRUE(std::isnan(one.metrics[0].second[1].second));
  ASSERT_EQ(one.pictures.size(), 1u);
  EXPECT_EQ(one.pictures[0].png[2], encode_png(Picture(2, 2)));
  EXPECT_EQ(one.pictures[0].index, 3);
  EXPECT_TRUE(std::isnan(record->cases[1].mean_dice));
}

TEST(ValidationFolder, OnlyTheNewestStaysAndCuttingRemovesLaterOnes) {
  const TempFolder folder;
  EXPECT_FALSE(read_validation(folder.path()));
  write_validation(folder.path(), {.step = 20});
  write_validation(folder.path(), {.step = 40});
  EXPECT_FALSE(std::filesystem::exists(folder / "validation/step-000000020"));
  truncate_validation(folder.path(), 40);
  EXPECT_EQ(read_validation(folder.path())->step, 40);
  truncate_validation(folder.path(), 39);
  EXPECT_FALSE(read_validation(folder.path()));
}

TEST(ValidationFolder, DamageAndForeignPicturesAreLeftOut) {
  const TempFolder folder;
  write_validation(folder.path(), {.step = 1, .cases = {sample_case("a", 1)}});
  const auto place = folder / "validation/step-000000001";
  write_bytes(folder / "secret", "text");
  const std::string picture = R"({"kind": "picture", "plane": "axial", "width_mm": 1, "height_mm": 1, )";
  write_bytes(place / "cases.jsonl",
              "torn {\n{\"kind\": \"case\", \"case\": \"b\", \"mean_dice\": 1}\n" + picture +
                  R"("image": "../../secret", "truth": "x", "prediction": "x"})" + "\n" + picture +
                  R"("image": "cases.jsonl", "truth": "x", "prediction": "x"})" + "\n");
  const auto record = read_validation(folder.path());
  ASSERT_EQ(record->cases.size(), 1u);
  EXPECT_EQ(record->cases[0].id, "b");
  EXPECT_TRUE(record->cases[0].pictures.empty());
}

TEST(ValidationFolder, PicturesOfTheLowestAndTheHighestStay) {
  std::vector<CaseRecord> cases;
  for (const double dice : {0.9, 0.1, 0.5, 0.2, 0.8, 0.3, 0.6, 0.4}) {
    cases.push_back(sample_case("c", dice));
    drop_middle_pictures(cases);
  }
  std::vector<double> shown;
  for (const CaseRecord& one : cases)
    if (!one.pictures.empty()) shown.push_back(one.mean_dice);
  EXPECT_EQ(shown, (std::vector<double>{0.9, 0.1, 0.2, 0.8, 0.3, 0.4}));
}

}  // namespace
}  // namespace tandem

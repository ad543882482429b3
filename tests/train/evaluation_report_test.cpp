// Scores as JSON (read back), CSV and the table of a terminal.
#include "train/evaluation_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "data/case_score.h"
#include "train/json.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

ClassScore with_distance(const OverlapCounts& counts, double hd95) {
  ClassScore score = score_class(counts, EmptyPolicy::kWorst);
  score.hd95 = hd95;
  return score;
}

// Two cases: "a" 0.8 and 0.5, "b, c" absent and missed.
SegmentationScores example() {
  SegmentationScores scores({"background", "a", "b, c"}, {.metrics = {"hd95"}, .nsd_mm = 2});
  const ClassScore background = score_class({90, 0, 0}, EmptyPolicy::kWorst);
  scores.add_case({.id = "one",
                   .file = "one.h5",
                   .shape = {2, 3, 4},
                   .spacing_mm = {3, 1, 1},
                   .scores = {background, with_distance({4, 1, 1}, 1.5), with_distance({}, kNotScored)}});
  scores.add_case({.id = "two \"x\"",
                   .file = "two.h5",
                   .shape = {2, 3, 4},
                   .scores = {background, with_distance({2, 2, 2}, 2.5), with_distance({0, 0, 7}, 40)}});
  return scores;
}

const EvaluationInfo kInfo{
    .checkpoint = "step-000000800.h5", .step = 800, .seconds = 2.5, .loss_scale_history = "1"};

TEST(EvaluationReport, JsonHasEveryValueAndKeepsItsNames) {
  const auto members = parse_json_object(evaluation_json(kInfo, example()));
  ASSERT_TRUE(members.has_value());
  EXPECT_EQ(members->at("format"), "tandem evaluation 1");
  EXPECT_EQ(members->at("checkpoint"), "step-000000800.h5");
  EXPECT_EQ(members->at("step"), "800");
  EXPECT_EQ(members->at("metrics"), R"(["dice","iou","hd95"])");
  EXPECT_EQ(members->at("nsd_mm"), "2");
  EXPECT_EQ(members->at("empty"), "worst");
  const auto dice = parse_json_object(members->at("dice"));
  EXPECT_NEAR(std::stod(dice->at("a")), .65, 1e-12);
  EXPECT_EQ(std::stod(dice->at("b, c")), 0);
  EXPECT_NEAR(std::stod(members->at("mean_dice")), .325, 1e-12);
  EXPECT_TRUE(members->contains("iou") && members->contains("mean_iou"));
  EXPECT_EQ(std::stod(members->at("mean_hd95")), 21);
  EXPECT_EQ(members->at("n"), R"({"a":2,"b, c":1})");
  EXPECT_EQ(members->at("absent"), R"({"a":0,"b, c":1})");
  EXPECT_EQ(members->at("missed_cases"), R"({"a":0,"b, c":1})");
  EXPECT_EQ(members->at("false_positive_cases"), R"({"a":0,"b, c":0})");
  EXPECT_EQ(members->at("loss_scale_history"), "1");
  const std::string& cases = members->at("cases");
  EXPECT_THAT(cases, HasSubstr(R"("status":{"a":"scored","b, c":"absent"})"));
  EXPECT_THAT(cases, HasSubstr(R"("dice":{"a":0.8,"b, c":null})"));
  EXPECT_THAT(cases, HasSubstr(R"("dice_nonfinite":{"b, c":"nan"})"));
  EXPECT_THAT(cases, HasSubstr(R"("shape":[2,3,4])"));
  EXPECT_THAT(cases, HasSubstr(R"("false_negative":{"a":2,"b, c":7})"));
}

TEST(EvaluationReport, CsvHasARowPerCaseAndClassAndTheMeans) {
  EXPECT_EQ(evaluation_csv(example()),
            "kind,case,class,status,n,dice,iou,hd95,true_positive,false_positive,false_negative\n"
            "case,one,a,scored,1,0.8,0.6666666666666666,1.5,4,1,1\n"
            "case,one,\"b, c\",absent,0,,,,0,0,0\n"
            "case,\"two \"\"x\"\"\",a,scored,1,0.5,0.3333333333333333,2.5,2,2,2\n"
            "case,\"two \"\"x\"\"\",\"b, c\",missed_case,1,0,0,40,0,0,7\n"
            "class,,a,,2,0.65,0.5,2,,,\n"
            "class,,\"b, c\",,1,0,0,40,,,\n"
            "mean,,,,2,0.325,0.25,21,,,\n");
}

TEST(EvaluationReport, TableShowsWhatIsNotScoredAsADash) {
  EXPECT_EQ(evaluation_table(example()),
            "class                dice      iou  hd95/mm     n\n"
            "a                  0.6500   0.5000    2.000     2\n"
            "b, c               0.0000   0.0000   40.000     1  1 missed, 1 absent\n"
            "mean               0.3250   0.2500   21.000  of 2 classes\n"
            "\none\n"
            "a                  0.8000   0.6667    1.500\n"
            "b, c                    -        -        -  absent\n"
            "\ntwo \"x\"\n"
            "a                  0.5000   0.3333    2.500\n"
            "b, c               0.0000   0.0000   40.000  missed_case\n");
}

TEST(EvaluationReport, BothFilesAreWritten) {
  const std::filesystem::path name = std::filesystem::path(::testing::TempDir()) / "tandem evaluation";
  write_evaluation(name, kInfo, example());
  const auto content = [](const std::string& path) {
    std::ifstream stream(path);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  EXPECT_EQ(content(name.string() + ".json"), evaluation_json(kInfo, example()) + "\n");
  EXPECT_EQ(content(name.string() + ".csv"), evaluation_csv(example()));
}

}  // namespace
}  // namespace tandem

// Points of a sweep, its record over restarts, and its table.
#include "train/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TempFolder;

TEST(SweepPoints, EveryCombinationThenTheRuns) {
  EXPECT_THAT(
      sweep_points({"optimizer.lr=[1e-3, 1e-2]", "model.features=[[4, 8], [8, 16]]"}, {"seed=2 threads=1"}),
      ElementsAre(Overrides{"optimizer.lr=1e-3", "model.features=[4, 8]"},
                  Overrides{"optimizer.lr=1e-3", "model.features=[8, 16]"},
                  Overrides{"optimizer.lr=1e-2", "model.features=[4, 8]"},
                  Overrides{"optimizer.lr=1e-2", "model.features=[8, 16]"},
                  Overrides{"seed=2", "threads=1"}));
}

TEST(SweepPoints, MistakesOfTheCommandLine) {
  const auto text = [](const std::vector<std::string>& grids, const std::vector<std::string>& runs) {
    return error_of(ErrorKind::kUsage, [&] { sweep_points(grids, runs); });
  };
  EXPECT_THAT(text({}, {}), HasSubstr("neither --grid nor --run"));
  EXPECT_THAT(text({"optimizer.lr=1e-3"}, {}), HasSubstr("got 'optimizer.lr=1e-3', expected KEY=[VALUE"));
  EXPECT_THAT(text({"optimizer.lr=[]"}, {}), HasSubstr("expected KEY=[VALUE"));
  EXPECT_THAT(text({"[1, 2]"}, {}), HasSubstr("expected KEY=[VALUE"));
  EXPECT_THAT(text({}, {"seed"}), HasSubstr("got 'seed' in 'seed'"));
  EXPECT_THAT(text({"seed=[1]", "seed=[2]"}, {}), HasSubstr("key 'seed' twice"));
  const std::string many = "=[1,2,3,4,5,6,7,8,9,10,11]";
  EXPECT_THAT(text({"a" + many, "b" + many, "c" + many, "d" + many}, {}), HasSubstr("more than 10000"));
}

TEST(SweepRecord, RemembersAndRefusesAnotherSweep) {
  const TempFolder folder;
  const std::filesystem::path path = folder / "sweep";
  {
    SweepRecord record(path, "/a/job.yaml", {"seed=1"}, "a: 1");
    EXPECT_FALSE(record.find("001", {"x=1"}));
    record.add({.run = "001", .overrides = {"x=1", "y=2"}, .exit_code = 5, .seconds = 2.5});
  }
  SweepRecord record(path, "/a/job.yaml", {"seed=1"}, "a: 1");
  ASSERT_TRUE(record.find("001", {"x=1", "y=2"}));
  EXPECT_EQ(record.find("001", {"x=1", "y=2"})->exit_code, 5);
  EXPECT_EQ(record.find("001", {"x=1", "y=2"})->seconds, 2.5);
  EXPECT_EQ(record.find("001", {"x=1", "y=2"})->overrides.size(), 2u);
  record.add({.run = "001", .overrides = {"x=1", "y=2"}});
  EXPECT_TRUE(SweepRecord(path, "/a/job.yaml", {"seed=1"}, "a: 1")
                  .find("001", {"x=1", "y=2"})
                  ->done());  // the last counts
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { record.find("001", {"x=2"}); }),
              HasSubstr("run 001: got 'x=2', expected 'x=1 y=2'"));
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { SweepRecord(path, "/a/job.yaml", {}, "a: 1"); }),
              HasSubstr("got a sweep of /a/job.yaml seed=1"));
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { SweepRecord(path, "/a/job.yaml", {"seed=1"}, "a: 2"); }),
              HasSubstr("got a job that has changed"));
}

TEST(SweepRecord, GoesOnBehindATornLine) {
  const TempFolder folder;
  const std::filesystem::path path = folder / "sweep";
  SweepRecord(path, "/a/job.yaml", {}, "a: 1").add({.run = "001", .overrides = {"x=1"}, .exit_code = 5});
  std::ofstream(path / "sweep.jsonl", std::ios::app) << R"({"kind": "run", "run": "00)";
  SweepRecord(path, "/a/job.yaml", {}, "a: 1").add({.run = "002", .overrides = {"x=2"}});
  const SweepRecord record(path, "/a/job.yaml", {}, "a: 1");
  EXPECT_EQ(record.find("001", {"x=1"})->exit_code, 5);
  EXPECT_TRUE(record.find("002", {"x=2"})->done());
}

TEST(SweepRecord, SaysWhereItCannotWrite) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "sweep" / "sweep.jsonl");
  EXPECT_THAT(
      error_of(ErrorKind::kResource, [&] { SweepRecord(folder / "sweep", "/a/job.yaml", {}, "a: 1"); }),
      HasSubstr("got a folder"));
}

TEST(SweepResults, ScoresCsvAndOrder) {
  const TempFolder folder;
  std::ofstream(folder / "metrics.jsonl") << R"({"kind": "step", "step": 10, "loss": 0.5}
{"kind": "val", "step": 10, "mean_dice": 0.75}
{"kind": "step", "step": 20, "loss": 0.25}
{"kind": "val", "step": 20, "mean_dice": 0.5}
{"kind": "val", "step": 30, "mean_dice": null}
torn)";
  SweepResult scored{.run = "001", .overrides = {"a=1", "b=[1, 2]"}, .seconds = 1};
  read_scores(folder.path(), scored);
  EXPECT_EQ(scored.step, 30);
  EXPECT_EQ(scored.loss, 0.25);
  EXPECT_FALSE(scored.dice);
  EXPECT_EQ(scored.best_dice, 0.75);
  SweepResult better = scored, failed{.run = "003", .overrides = {"c=\"x\""}, .exit_code = 5};
  better.run = "002";
  better.best_dice = better.dice = 0.875;
  EXPECT_EQ(sweep_csv({scored, better, failed}),
            "run,status,exit_code,step,loss,dice,best_dice,seconds,a,b,c\r\n"
            "001,done,0,30,0.25,,0.75,1.0,1,\"[1, 2]\",\r\n"
            "002,done,0,30,0.25,0.875,0.875,1.0,1,\"[1, 2]\",\r\n"
            "003,failed,5,0,,,,0.0,,,\"\"\"x\"\"\"\r\n");
  const std::string table = sweep_table({failed, scored, better});
  EXPECT_LT(table.find("002"), table.find("001"));
  EXPECT_LT(table.find("001"), table.find("003"));
}

}  // namespace
}  // namespace tandem

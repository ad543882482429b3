// metrics.csv as a table, and made again from metrics.jsonl on resume.
#include "train/run_log.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/test_files.h"

namespace tandem {
namespace {

using testing::read_bytes;
using testing::TempFolder;
using testing::write_bytes;

constexpr const char* kHeader =
    "kind,step,epoch,loss,lr,scale,event,grad_norm,step_ms,data_wait_ms,forward_ms,backward_ms,update_ms,"
    "mean_dice,dice_hip,\"dice_a, b\"\n";

TEST(RunLog, TheTableHasARowPerStepAndValidation) {
  const TempFolder folder;
  RunLog log(folder.path(), false, {"hip", "a, b"}, {});
  log.write(StepMetrics{.step = 1,
                        .epoch = 0,
                        .loss = 0.1f,
                        .lr = 0.002f,
                        .scale = 65536,
                        .grad_norm = 2.5,
                        .step_ms = 10,
                        .data_wait_ms = 1,
                        .forward_ms = 3,
                        .backward_ms = 5,
                        .update_ms = 1});
  log.write(StepMetrics{.step = 2, .loss = INFINITY, .event = StepEvent::kForward, .grad_norm = NAN});
  log.write(
      ValidationMetrics{.step = 2, .dice = {{"a, b", 0.5}, {"hip", NAN}, {"other", 1}}, .mean_dice = 0.5});
  log.write(EventMetrics{2, "start", "text"});
  EXPECT_EQ(read_bytes(folder / "metrics.csv"), std::string(kHeader) +
                                                    "step,1,0,0.1,0.002,65536,good,2.5,10,1,3,5,1,,,\n"
                                                    "step,2,0,inf,0,1,forward,nan,0,0,0,0,0,,,\n"
                                                    "val,2,0,,,,,,,,,,,0.5,nan,0.5\n");
  EXPECT_EQ(CsvTable({"hip", "a, b"}).text(read_metrics(folder / "metrics.jsonl")),
            read_bytes(folder / "metrics.csv"));
}

TEST(RunLog, ResumingMakesTheTableAnew) {
  const TempFolder folder;
  MetricsHistory history;
  history.steps.emplace_back().step = 7;
  write_bytes(folder / "metrics.csv", "torn,9");
  RunLog log(folder.path(), false, {}, history);
  log.write(StepMetrics{.step = 8});
  const std::string text = read_bytes(folder / "metrics.csv");
  EXPECT_NE(text.find("\nstep,7,"), std::string::npos) << text;
  EXPECT_NE(text.find("\nstep,8,"), std::string::npos) << text;
  EXPECT_EQ(text.find("torn"), std::string::npos);
}

TEST(RunLog, TensorboardEventsAreMadeAnewWhereThereAreNone) {
  const TempFolder folder;
  MetricsHistory history;
  history.steps.emplace_back().step = 7;
  history.validations = {{.step = 7, .mean_dice = 0.5}};
  { RunLog log(folder.path(), true, {}, history); }
  const auto files = tensorboard_files(folder.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_NE(read_bytes(files[0]).find("validation/mean_dice"), std::string::npos);
  EXPECT_FALSE(truncate_tensorboard(folder.path(), 7));
}

}  // namespace
}  // namespace tandem

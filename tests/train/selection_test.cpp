// What a validation's metric decides: the best checkpoints, early stop, plateau; and that a repeated
// validation decides nothing twice.
#include "train/selection.h"

#include <gtest/gtest.h>

#include <cmath>

#include "layers/models/unet3d.h"

namespace tandem {
namespace {

struct Fixture {
  explicit Fixture(const JobOptions& job)
      : net({.features = {2, 2}}, 1, 2),
        trainer({}, {}, net, [](const Outputs& o, const Target&) { return o.main; },
                {.schedule = job.schedule}),
        selection(job) {}
  UNet3d net;
  Trainer trainer;
  Selection selection;
};

JobOptions job_with(const std::string& metric) {
  JobOptions job;
  job.select.metric = metric;
  return job;
}

std::vector<std::int64_t> steps(const Selection& selection) {
  std::vector<std::int64_t> all;
  for (const RankedCheckpoint& entry : selection.best()) all.push_back(entry.step);
  return all;
}

TEST(Selection, NoMetricDecidesNothing) {
  const JobOptions job = job_with("none");
  Fixture f(job);
  EXPECT_FALSE(f.selection.note(10, 0.5, f.trainer));
  EXPECT_TRUE(f.selection.best().empty());
  EXPECT_FALSE(f.selection.should_stop());
}

TEST(Selection, KeepsTheBestByItsMode) {
  JobOptions job = job_with("dice");
  job.checkpoint.keep_best = 2;
  Fixture f(job);
  EXPECT_TRUE(f.selection.note(10, 0.5, f.trainer));
  EXPECT_TRUE(f.selection.note(20, 0.7, f.trainer));
  EXPECT_FALSE(f.selection.note(30, 0.4, f.trainer));
  EXPECT_FALSE(f.selection.note(40, std::nan(""), f.trainer));
  EXPECT_EQ(steps(f.selection), (std::vector<std::int64_t>{20, 10}));
  job.select.mode = MetricMode::kMin;
  Fixture g(job);
  for (const auto& [step, value] : {std::pair{10, 0.5}, std::pair{20, 0.7}, std::pair{30, 0.4}})
    g.selection.note(step, value, g.trainer);
  EXPECT_EQ(steps(g.selection), (std::vector<std::int64_t>{30, 10}));
}

TEST(Selection, StopsWhenPatienceIsOver) {
  JobOptions job = job_with("iou");
  job.train.early_stop = EarlyStopOptions{.patience = 2, .min_delta = 0.05};
  Fixture f(job);
  for (const auto& [step, value] : {std::pair{10, 0.5}, std::pair{20, 0.54}})
    f.selection.note(step, value, f.trainer);
  EXPECT_FALSE(f.selection.should_stop()) << "one without a gain of 0.05";
  EXPECT_FALSE(f.selection.note(20, 0.54, f.trainer)) << "a validation made up after a resume";
  EXPECT_FALSE(f.selection.should_stop());
  CheckpointContent content;
  f.selection.save(content);
  Fixture resumed(job);
  resumed.selection.load(content);
  EXPECT_TRUE(resumed.selection.note(30, 0.549, resumed.trainer));
  EXPECT_TRUE(resumed.selection.should_stop());
  EXPECT_TRUE(f.selection.note(30, 0.56, f.trainer));
  EXPECT_FALSE(f.selection.should_stop());
  EXPECT_EQ(f.selection.watch().best, 0.56);
}

TEST(Selection, PlateauLowersTheRate) {
  JobOptions job = job_with("dice");
  job.schedule = {.name = ScheduleKind::kPlateau, .factor = 0.5, .patience = 1};
  Fixture f(job);
  for (const auto& [step, factor] : {std::pair{10, 1.0}, std::pair{20, 1.0}, std::pair{30, 0.5},
                                     std::pair{30, 0.5}, std::pair{40, 0.5}, std::pair{50, 0.25}}) {
    EXPECT_TRUE(f.selection.note(step, 0.5, f.trainer));
    EXPECT_EQ(f.trainer.rate_factor(), factor) << step;
  }
}

}  // namespace
}  // namespace tandem

// Run folders: numbering, refusals, the lock between processes, overwriting and resuming.
#include "train/run_folder.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/base/error.h"
#include "tests/train/checkpoint_content.h"
#include "train/checkpoint.h"
#include "train/json.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::read_bytes;
using testing::sample_content;
using testing::status_in_child;
using testing::TempFolder;
using testing::write_bytes;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string metrics(std::initializer_list<int> steps) {
  std::string text;
  for (const int step : steps) text += JsonObject().add("kind", "step").add("step", step).text() + "\n";
  return text;
}

// A finished run with checkpoints of steps 10, 20, 30 and metrics up to 33.
fs::path used_run(const TempFolder& folder, const std::string& name = "job-001") {
  const fs::path path = folder / name;
  {
    const RunFolder run({.folder = path});
    write_bytes(run.metrics_path(), metrics({5, 10, 20, 25, 30, 33}));
    write_bytes(path / "config.resolved.yaml", "name: job\n");
  }
  for (const std::int64_t step : {10, 20, 30}) save_checkpoint(path, sample_content(step), {.keep_last = 9});
  return path;
}

TEST(RunFolder, NewRunsGetTheNextNumber) {
  const TempFolder folder;
  const fs::path root = folder / "runs";
  EXPECT_EQ(RunFolder({.root = root, .name = "job"}).path(), root / "job-001");
  EXPECT_EQ(RunFolder({.root = root, .name = "job"}).path(), root / "job-002");
  fs::create_directory(root / "job-041");
  fs::create_directory(root / "job-x");
  fs::create_directory(root / "job-50-old");
  EXPECT_EQ(RunFolder({.root = root, .name = "job"}).path(), root / "job-042");
  EXPECT_EQ(RunFolder({.root = root, .name = "other"}).path(), root / "other-001");
}

TEST(RunFolder, DescribesTheRun) {
  const TempFolder folder;
  const RunFolder run({.folder = folder / "a b/run"});
  const std::string environment =
      environment_json({.version = "0.1.0", .isa = "amx", .compute = "F16", .device = "cpu", .threads = 2});
  run.describe("name: job\n", environment);
  EXPECT_EQ(read_bytes(run.path() / "config.resolved.yaml"), "name: job\n");
  EXPECT_EQ(read_bytes(run.path() / "environment.json"),
            R"({"version": "0.1.0", "isa": "amx", "compute": "F16", "device": "cpu", "threads": 2})"
            "\n");
  EXPECT_TRUE(fs::exists(run.log_path()));
  EXPECT_FALSE(run.checkpoint().has_value());
}

TEST(RunFolder, AUsedFolderIsRefusedWithTheWaysToGoOn) {
  const TempFolder folder;
  const fs::path used = used_run(folder);
  const auto before = names_in(used);
  const std::string text = error_of(ErrorKind::kUsage, [&] { RunFolder({.folder = used}); });
  EXPECT_THAT(text, HasSubstr(used.string() +
                              ": got a folder that holds best and 6 more, expected a new or empty one"));
  EXPECT_THAT(text, HasSubstr("Give --resume auto to go on with it, --overwrite"));
  EXPECT_EQ(names_in(used), before);
}

TEST(RunFolder, AFolderThatNoRunMadeIsNeverTouched) {
  const TempFolder folder;
  const fs::path home = folder / "home";
  fs::create_directory(home);
  write_bytes(home / "thesis.tex", "years");
  write_bytes(home / ".tmp-1-thesis", "mine");
  for (const RunFolderRequest& request : {RunFolderRequest{.folder = home},
                                          {.folder = home, .resume = "auto"},
                                          {.folder = home, .overwrite = true}})
    EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { const RunFolder run(request); }),
                HasSubstr("holds thesis.tex"));
  EXPECT_THAT(names_in(home), ElementsAre(".tmp-1-thesis", "thesis.tex"));
}

TEST(RunFolder, OverwriteMovesAside) {
  const TempFolder folder;
  const fs::path used = used_run(folder);
  const RunFolder run({.folder = used, .overwrite = true});
  EXPECT_THAT(names_in(used), ElementsAre("run.lock"));
  EXPECT_EQ(newest_intact(folder / "job-001.old-001").found->step, 30);
  EXPECT_FALSE(run.checkpoint().has_value());
}

TEST(RunFolder, AFileOfThatNameIsAResourceError) {
  const TempFolder folder;
  write_bytes(folder / "file", "x");
  EXPECT_THAT(error_of(ErrorKind::kResource, [&] { RunFolder({.folder = folder / "file"}); }),
              HasSubstr("cannot be made"));
}

TEST(RunFolder, ASecondProcessIsRefusedAndTheFirstIsNamed) {
  const TempFolder folder;
  const RunFolder run({.folder = folder / "run"});
  for (const std::string resume : {"", "auto"}) {
    const int status = status_in_child([&] {
      try {
        const RunFolder second({.folder = folder / "run", .resume = resume});
      } catch (const Error& error) {
        const bool named =
            std::string(error.what()).find(fmt::format("pid {}", ::getppid())) != std::string::npos;
        return named ? exit_code(error.kind()) : 1;
      }
      return 0;
    });
    EXPECT_EQ(status, 2) << resume;
  }
}

TEST(RunFolder, TheLockDiesWithItsProcess) {
  const TempFolder folder;
  EXPECT_EQ(status_in_child([&] {
              new RunFolder({.folder = folder / "run"});  // never destroyed
              return 0;
            }),
            0);
  EXPECT_NO_THROW(RunFolder({.folder = folder / "run"}));
}

TEST(Resume, AutoTakesTheNewestAndCutsMetrics) {
  const TempFolder folder;
  const fs::path used = used_run(folder);
  write_bytes(used / ".tmp-77-step-000000040.h5", "torn");
  const RunFolder run({.folder = used, .resume = "auto"});
  run.describe("", "");
  EXPECT_EQ(run.checkpoint(), used / "step-000000030.h5");
  EXPECT_EQ(read_bytes(run.metrics_path()), metrics({5, 10, 20, 25, 30}));
  EXPECT_FALSE(fs::exists(used / ".tmp-77-step-000000040.h5"));
}

TEST(Resume, AutoFallsBackOverATornOne) {
  const TempFolder folder;
  const fs::path used = used_run(folder);
  fs::resize_file(used / "step-000000030.h5", 1000);
  const RunFolder run({.folder = used, .resume = "auto"});
  run.describe("", "");
  EXPECT_EQ(run.checkpoint(), used / "step-000000020.h5");
  EXPECT_EQ(read_bytes(run.metrics_path()), metrics({5, 10, 20}));
}

TEST(Resume, AutoWithoutAnyIntactOneIsAnErrorThatNamesAll) {
  const TempFolder folder;
  const fs::path used = used_run(folder);
  for (const char* name : {"step-000000010.h5", "step-000000020.h5", "step-000000030.h5"})
    fs::resize_file(used / name, 9);
  const std::string text =
      error_of(ErrorKind::kCheckpoint, [&] { RunFolder({.folder = used, .resume = "auto"}); });
  for (const char* name : {"step-000000010.h5", "step-000000020.h5", "step-000000030.h5"})
    EXPECT_THAT(text, HasSubstr(name));
  EXPECT_EQ(read_bytes(used / "metrics.jsonl"), metrics({5, 10, 20, 25, 30, 33}));
}

TEST(Resume, AutoStartsANewRunWhereThereIsNone) {
  const TempFolder folder;
  const RunFolder made({.folder = folder / "new", .resume = "auto"});
  EXPECT_FALSE(made.checkpoint().has_value());
  const RunFolder numbered({.root = folder / "runs", .name = "job", .resume = "auto"});
  EXPECT_EQ(numbered.path(), folder / "runs/job-001");
}

TEST(Resume, AutoBeforeTheFirstCheckpointStartsOver) {
  const TempFolder folder;
  {
    const RunFolder run({.folder = folder / "run"});
    write_bytes(run.metrics_path(), metrics({1, 2}));
  }
  const RunFolder run({.folder = folder / "run", .resume = "auto"});
  run.describe("", "");
  EXPECT_FALSE(run.checkpoint().has_value());
  EXPECT_EQ(read_bytes(run.metrics_path()), "");
}

TEST(Resume, AutoWithoutAFolderTakesTheNewestRunOfTheJob) {
  const TempFolder folder;
  used_run(folder, "job-001");
  const fs::path newest = used_run(folder, "job-002");
  const RunFolder run({.root = folder.path(), .name = "job", .resume = "auto"});
  EXPECT_EQ(run.path(), newest);
}

TEST(Resume, AnEarlierCheckpointSetsLaterOnesAside) {
  const TempFolder folder;
  const fs::path used = used_run(folder);
  const fs::path wanted = used / "step-000000010.h5";
  const RunFolder run({.resume = wanted.string()});
  run.describe("", "");
  EXPECT_EQ(run.path(), used);
  EXPECT_EQ(run.checkpoint(), wanted);
  EXPECT_THAT(names_in(used / "superseded-001"), ElementsAre("step-000000020.h5", "step-000000030.h5"));
  EXPECT_EQ(read_bytes(run.metrics_path()), metrics({5, 10}));
  EXPECT_EQ(newest_intact(used).found->step, 10);
}

TEST(Resume, NothingChangesUntilTheRunStarts) {
  const TempFolder folder;
  const fs::path used = used_run(folder);
  const auto before = names_in(used);
  {
    const RunFolder run({.resume = (used / "step-000000010.h5").string()});
    EXPECT_EQ(names_in(used), before);
    EXPECT_EQ(read_bytes(run.metrics_path()), metrics({5, 10, 20, 25, 30, 33}));
    EXPECT_EQ(read_bytes(used / "config.resolved.yaml"), "name: job\n");
  }
}

TEST(Resume, ARunFolderAsPathMeansItsNewest) {
  const TempFolder folder;
  const fs::path used = used_run(folder);
  EXPECT_EQ(RunFolder({.resume = used.string()}).checkpoint(), used / "step-000000030.h5");
}

TEST(Resume, FromElsewhereNeedsAnEmptyFolder) {
  const TempFolder folder;
  const fs::path used = used_run(folder), other = used_run(folder, "job-002");
  const RunFolder run({.folder = folder / "new", .resume = used.string()});
  EXPECT_EQ(run.path(), folder / "new");
  EXPECT_EQ(run.checkpoint(), used / "step-000000030.h5");
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { RunFolder({.folder = other, .resume = used.string()}); }),
              HasSubstr("another folder's checkpoint"));
}

TEST(Resume, ADamagedOrMissingPathIsACheckpointError) {
  const TempFolder folder;
  const fs::path used = used_run(folder);
  fs::resize_file(used / "step-000000030.h5", 1000);
  EXPECT_THAT(
      error_of(ErrorKind::kCheckpoint, [&] { RunFolder({.resume = (used / "step-000000030.h5").string()}); }),
      HasSubstr("torn"));
  EXPECT_THAT(error_of(ErrorKind::kCheckpoint, [&] { RunFolder({.resume = (folder / "none").string()}); }),
              HasSubstr("no such file or folder"));
  EXPECT_FALSE(fs::exists(folder / "none"));
}

TEST(Environment, DifferencesAreListed) {
  const RunEnvironment saved{
      .version = "0.1.0", .isa = "amx", .compute = "F16", .device = "cpu", .threads = 2};
  RunEnvironment now = saved;
  EXPECT_TRUE(environment_differences(environment_json(saved), environment_json(now)).empty());
  now.threads = 8;
  now.isa = "avx2";
  EXPECT_THAT(environment_differences(environment_json(saved), environment_json(now)),
              ElementsAre("isa: checkpoint amx, now avx2", "threads: checkpoint 2, now 8"));
  EXPECT_EQ(environment_differences("", environment_json(now)).size(), 1u);
}

}  // namespace
}  // namespace tandem

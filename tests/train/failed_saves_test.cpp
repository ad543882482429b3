// A run whose checkpoints cannot be written: what it puts up with, and when it ends.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <set>

#include "core/base/file_calls.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"
#include "train/run.h"

namespace tandem {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::TempFolder;
namespace fs = std::filesystem;

// No room for the checkpoints of some steps.
class NoRoomFor final : public FileCalls {
 public:
  explicit NoRoomFor(std::set<int> steps) {
    for (const int step : steps) names_.insert(fmt::format("step-{:09}.h5", step));
  }
  int open(const char* path, int flags, mode_t mode) override {
    const std::string name = fs::path(path).filename().string();
    for (const std::string& part : names_)
      if ((flags & O_CREAT) != 0 && name.ends_with(part)) {
        errno = ENOSPC;
        return -1;
      }
    return FileCalls::open(path, flags, mode);
  }

 private:
  std::set<std::string> names_;
};

// A small job that saves after each of nine steps.
JobOptions small_job(const TempFolder& folder) {
  testing::write_counting_case(folder / "case.h5", {10, 10, 10}, [](const Index3& at) { return at[0] % 3; });
  testing::write_bytes(folder / "job.yaml",
                       "data: {train: [case.h5], labels: {background: 0, a: 1, b: 2}}\n"
                       "model: {name: unet3d, features: [4, 8]}\npatch: {size: [8, 8, 8]}\nthreads: 1\n"
                       "train: {iterations: 9}\ncheckpoint: {every: 1, keep_last: 9}\n"
                       "log: {tensorboard: false, report: false}\n");
  return load_job(folder / "job.yaml", {});
}

// How many messages about files of `run` its log has with `part`; messages of earlier tests may stand there
// too.
std::int64_t count(const fs::path& run, const std::string& part) {
  std::ifstream log(run / "log.txt");
  std::int64_t n = 0;
  for (std::string line; std::getline(log, line);)
    n += line.find(run.string()) != std::string::npos && line.find(part) != std::string::npos;
  return n;
}

RunRequest request_for(const fs::path& folder) {
  RunRequest request;
  request.folder.folder = folder;
  request.progress = false;
  return request;
}

TEST(FailedSaves, ASaveThatWorksBeginsTheCountAnew) {
  const TempFolder folder;
  const JobOptions job = small_job(folder);
  NoRoomFor full({1, 2, 4, 5, 7, 8});
  const ReplacedFileCalls replaced(full);
  run_training(job, request_for(folder / "run"));
  EXPECT_EQ(count(folder / "run", "No space left on device"), 6);
  EXPECT_EQ(count(folder / "run", "The next try is in 1 steps (1 of 3)."), 3);
  EXPECT_EQ(count(folder / "run", "The next try is in 1 steps (2 of 3)."), 3);
  for (int step = 1; step <= 9; ++step)
    EXPECT_EQ(fs::exists(folder / "run" / fmt::format("step-{:09}.h5", step)), step % 3 == 0) << step;
}

TEST(FailedSaves, TheThirdInARowEndsTheRunWithExit6) {
  const TempFolder folder;
  const JobOptions job = small_job(folder);
  NoRoomFor full({4, 5, 6});
  const ReplacedFileCalls replaced(full);
  const std::string text =
      error_of(ErrorKind::kResource, [&] { run_training(job, request_for(folder / "run")); });
  EXPECT_EQ(exit_code(ErrorKind::kResource), 6);
  EXPECT_THAT(text, HasSubstr("step-000000006.h5"));
  EXPECT_THAT(text, HasSubstr("No space left on device"));
  EXPECT_THAT(text, HasSubstr("Last good checkpoint: step 3."));
  EXPECT_EQ(count(folder / "run", "The next try is in 1 steps"), 2);
  EXPECT_TRUE(fs::exists(folder / "run" / "step-000000003.h5"));
}

}  // namespace
}  // namespace tandem

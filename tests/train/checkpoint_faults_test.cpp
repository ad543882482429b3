// What may go wrong while a checkpoint is written: the process dies between any two calls, the power fails,
// or any call fails. Each time a complete checkpoint is found, and nothing of a finished save is lost.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "core/base/file_calls.h"
#include "tests/train/checkpoint_content.h"
#include "tests/train/fault_calls.h"
#include "train/checkpoint.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::FailingFileCalls;
using testing::Fault;
using testing::LossyDisk;
using testing::RecordingFileCalls;
using testing::sample_content;
using testing::status_in_child;
using testing::TempFolder;

// The step of the newest intact checkpoint of `folder`, once its content is seen to be that step's to the bit
// and no other file claims to be a checkpoint; -1 with a failed test otherwise.
std::int64_t newest_step(const fs::path& folder, const std::string& where) {
  const NewestCheckpoint newest = newest_intact(folder);
  EXPECT_TRUE(newest.found.has_value()) << where;
  EXPECT_TRUE(newest.rejected.empty()) << "a torn file has a checkpoint's name: " << where;
  if (!newest.found) return -1;
  const auto difference =
      diff_checkpoints(load_checkpoint(newest.found->path), sample_content(newest.found->step));
  EXPECT_FALSE(difference.has_value()) << where << ": " << difference->name;
  return newest.found->step;
}

// Ends the writing process before each of its calls in turn, until it gets through.
TEST(KilledWhileSaving, AnIntactCheckpointIsLeftAtEveryCall) {
  int calls = 0, with_old = 0, with_new = 0;
  for (int status = 137; status == 137; ++calls) {
    const TempFolder folder;
    for (const std::int64_t step : {1, 2}) save_checkpoint(folder.path(), sample_content(step));
    status = status_in_child([&] {
      CrashingFileCalls crash(calls + 1);
      const ReplacedFileCalls replaced(crash);
      save_checkpoint(folder.path(), sample_content(3), {.keep_last = 1});
      return 0;
    });
    ASSERT_TRUE(status == 137 || status == 0) << status;
    const std::int64_t step = newest_step(folder.path(), fmt::format("call {}", calls + 1));
    ASSERT_TRUE(step == 2 || step == 3);
    (step == 2 ? with_old : with_new) += 1;
    EXPECT_TRUE(read_pointer(folder.path(), "latest").has_value()) << "call " << calls;
    save_checkpoint(folder.path(), sample_content(4));  // the run goes on
    EXPECT_EQ(newest_intact(folder.path()).found->step, 4);
  }
  EXPECT_GE(calls, 12);
  EXPECT_GE(with_old, 5);
  EXPECT_GE(with_new, 5);
}

// Four saves of a run as calls; saved_after[i] calls were made when save i + 1 had returned.
struct Recording {
  RecordingFileCalls calls;
  std::vector<std::size_t> saved_after;

  Recording() {
    const TempFolder folder;
    const ReplacedFileCalls replaced(calls);
    for (const std::int64_t step : {1, 2, 3, 4}) {
      save_checkpoint(folder.path(), sample_content(step), {.keep_last = step < 3 ? 2 : 1});
      saved_after.push_back(calls.operations().size());
    }
  }
};

struct PowerCut {
  std::size_t call = 0;       // calls that were made before it
  std::int64_t finished = 0;  // the newest step whose save had returned
  std::map<std::string, std::string> files;
};

PowerCut cut_power(const Recording& recording, LossyDisk::Obeys obeys, std::mt19937_64& random) {
  PowerCut cut;
  cut.call = recording.saved_after.front() +
             random() % (recording.calls.operations().size() - recording.saved_after.front() + 1);
  LossyDisk disk(obeys);
  for (std::size_t i = 0; i < cut.call; ++i) disk.apply(recording.calls.operations()[i]);
  for (std::size_t i = 0; i < recording.saved_after.size(); ++i)
    if (recording.saved_after[i] <= cut.call) cut.finished = static_cast<std::int64_t>(i) + 1;
  cut.files = disk.after_power_cut(random);
  return cut;
}

TEST(PowerCut, NothingOfAFinishedSaveIsLostInTwoHundredSchedules) {
  const Recording recording;
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int schedule = 0; schedule < 200; ++schedule) {
    const PowerCut cut = cut_power(recording, {}, random);
    const TempFolder folder;
    for (const auto& [name, bytes] : cut.files) testing::write_bytes(folder / name, bytes);
    const std::string where = fmt::format("seed {} schedule {} after call {}", seed, schedule, cut.call);
    ASSERT_GE(newest_step(folder.path(), where), cut.finished) << where;
  }
}

// The model can fail: a disk that forgets one of the two kinds of fsync loses a checkpoint.
TEST(PowerCut, WithoutEitherFsyncACheckpointIsLost) {
  const Recording recording;
  for (const LossyDisk::Obeys obeys : {LossyDisk::Obeys{.file_syncs = false}, {.folder_syncs = false}}) {
    std::mt19937_64 random(1);
    int lost = 0;
    for (int schedule = 0; schedule < 50; ++schedule) {
      const PowerCut cut = cut_power(recording, obeys, random);
      const TempFolder folder;
      for (const auto& [name, bytes] : cut.files) testing::write_bytes(folder / name, bytes);
      const NewestCheckpoint newest = newest_intact(folder.path());
      lost += !newest.found || newest.found->step < cut.finished;
    }
    EXPECT_GT(lost, 5) << obeys.file_syncs;
  }
}

// One fault at each call of a save in turn, until there is no further call.
void fail_each_call(Fault fault, bool persistent, const std::function<void(bool threw)>& expect) {
  // The disk is simulated: what is saved before and after the fault needs no fsync either.
  FailingFileCalls sound(fault, std::numeric_limits<std::int64_t>::max(), false);
  const ReplacedFileCalls no_fault(sound);
  bool reached = true;
  for (std::int64_t n = 1; reached; ++n) {
    const TempFolder folder;
    for (const std::int64_t step : {1, 2}) save_checkpoint(folder.path(), sample_content(step));
    const std::string where = fmt::format("call {}", n);
    bool threw = false;
    {
      FailingFileCalls calls(fault, n, persistent);
      const ReplacedFileCalls replaced(calls);
      try {
        save_checkpoint(folder.path(), sample_content(3), {.keep_last = 1});
      } catch (const Error& error) {
        threw = true;
        EXPECT_EQ(exit_code(error.kind()), 6) << where;
        EXPECT_NE(std::string(error.what()).find(folder.path().string()), std::string::npos) << error.what();
        EXPECT_NE(error.hint().find("Last good checkpoint: step "), std::string::npos) << error.what();
      }
      reached = calls.reached();
    }
    const std::int64_t step = newest_step(folder.path(), where);
    ASSERT_TRUE(threw ? step == 2 || step == 3 : step == 3) << where << ": step " << step;
    if (reached) expect(threw);
    save_checkpoint(folder.path(), sample_content(4));
    ASSERT_EQ(newest_step(folder.path(), where), 4);
    ASSERT_LT(n, 200);
  }
}

TEST(FailingCalls, EioAndEnospcAreErrorsThatLeaveTheOldOne) {
  for (const Fault fault : {Fault::kIo, Fault::kNoSpace})
    for (const bool persistent : {false, true}) {
      int errors = 0;
      fail_each_call(fault, persistent, [&](bool threw) { errors += threw; });
      EXPECT_GE(errors, 15);
    }
}

TEST(FailingCalls, InterruptedAndShortCallsAreMadeAgain) {
  fail_each_call(Fault::kInterrupted, false, [](bool threw) { EXPECT_FALSE(threw); });
  for (const bool persistent : {false, true})
    fail_each_call(Fault::kShortWrite, persistent, [](bool threw) { EXPECT_FALSE(threw); });
}

}  // namespace
}  // namespace tandem

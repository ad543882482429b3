// Event files: bytes by the formulas of the format, and what the real TensorBoard reads in them.
#include "train/tensorboard.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "core/base/error.h"
#include "tests/data/test_files.h"
#include "train/run_log.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::read_bytes;
using testing::TempFolder;
using testing::write_bytes;

std::string hex(std::string_view bytes) {
  std::string out;
  for (const unsigned char byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

TEST(Tensorboard, ChecksumsAreThoseOfRfc3720) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
}

TEST(Tensorboard, EventsAreProtobuf) {
  // wall_time 1.0 (field 1, fixed64), step 300 (field 2: ac 02), summary (5) of one value (1): tag "t" (1),
  // 0.5f (2).
  EXPECT_EQ(hex(scalars_event(1, 300, {{"t", 0.5}})),
            "09000000000000f03f10ac02"
            "2a0a"
            "0a08"
            "0a0174"
            "150000003f");
  EXPECT_EQ(hex(session_start_event(1, 3)), "09000000000000f03f10033a020801");
  EXPECT_EQ(hex(version_event(0)), "0900000000000000001a0d" + hex("brain.Event:2"));
}

TEST(Tensorboard, ARecordIsFramedByItsLengthAndTwoMaskedChecksums) {
  const std::string record = tf_record("123456789");
  // mask(0xe3069283) = rotr(0xe3069283, 15) + 0xa282ead8 = 0x2507c60d + 0xa282ead8 = 0xc78ab0e5
  EXPECT_EQ(hex(record.substr(0, 8)), "0900000000000000");
  EXPECT_EQ(record.substr(12, 9), "123456789");
  EXPECT_EQ(hex(record.substr(21)), "e5b08ac7");
}

// A run of 5 steps, killed, and gone on with from step 3 to step 6.
void write_resumed_run(const TempFolder& folder) {
  const auto step = [](std::int64_t n, double loss) {
    return StepMetrics{.step = n, .loss = loss, .lr = 0.5, .scale = 8, .grad_norm = 1, .step_ms = 2};
  };
  {
    RunLog log(folder.path(), true, {"hip"}, {});
    for (int n = 1; n <= 5; ++n) log.write(step(n, n));
    log.write(ValidationMetrics{.step = 3, .dice = {{"hip", 0.25}}, .mean_dice = 0.25});
  }
  truncate_metrics(folder / "metrics.jsonl", 3);
  truncate_tensorboard(folder.path(), 3);
  RunLog log(folder.path(), true, {"hip"}, read_metrics(folder / "metrics.jsonl"));
  for (int n = 4; n <= 6; ++n) log.write(step(n, 10 * n));
  log.write(ValidationMetrics{.step = 6, .dice = {{"hip", 0.5}}, .mean_dice = 0.5});
}

TEST(Tensorboard, TheRealProgramReadsAResumedRunWithoutAZigzag) {
  TD_NEEDS_PYTHON("tensorboard");
  const TempFolder folder;
  write_resumed_run(folder);
  EXPECT_EQ(tensorboard_files(folder.path()).size(), 2u);
  const std::string read = testing::run_python(folder, R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
for tag in sorted(events.Tags()["scalars"]):
    print(tag, *(f"{e.step}:{e.value:g}" for e in events.Scalars(tag)))
# Without the rules for restarts, record by record: no step twice either.
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
import glob
raw = [(e.step, v.simple_value) for f in sorted(glob.glob(sys.argv[1] + "/events*")) for e in LegacyEventFileLoader(f).Load()
       for v in e.summary.value if v.tag == "train/loss"]
print("raw", *(f"{step}:{value:g}" for step, value in raw))
)",
                                               {folder.path().string()});
  EXPECT_EQ(read,
            "train/data_wait_ms 1:0 2:0 3:0 4:0 5:0 6:0\n"
            "train/grad_norm 1:1 2:1 3:1 4:1 5:1 6:1\n"
            "train/loss 1:1 2:2 3:3 4:40 5:50 6:60\n"
            "train/loss_scale 1:8 2:8 3:8 4:8 5:8 6:8\n"
            "train/lr 1:0.5 2:0.5 3:0.5 4:0.5 5:0.5 6:0.5\n"
            "train/step_ms 1:2 2:2 3:2 4:2 5:2 6:2\n"
            "validation/dice/hip 6:0.5\n"
            "validation/mean_dice 6:0.5\n"
            "raw 1:1 2:2 3:3 4:40 5:50 6:60\n");
}

TEST(Tensorboard, CuttingStopsAtDamageAndRemovesFilesWithoutScalars) {
  const TempFolder folder;
  { TensorboardWriter(folder.path(), 0).write(1, {{"t", 1}}); }
  const auto path = tensorboard_files(folder.path()).at(0);
  const std::string whole = read_bytes(path);
  write_bytes(path, whole + whole.substr(0, 20));
  EXPECT_TRUE(truncate_tensorboard(folder.path(), 5));
  EXPECT_EQ(read_bytes(path).substr(0, whole.size()), whole);
  EXPECT_FALSE(truncate_tensorboard(folder.path(), 5));
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 1;
  write_bytes(path, damaged);
  EXPECT_TRUE(truncate_tensorboard(folder.path(), 5));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Tensorboard, ANewFileIsReadAfterTheOldOnes) {
  const TempFolder folder;
  write_bytes(folder / "events.out.tfevents.9999999999.004", "");
  const TensorboardWriter writer(folder.path(), 1);
  EXPECT_TRUE(std::filesystem::exists(folder / "events.out.tfevents.9999999999.005"));
  EXPECT_EQ(tensorboard_files(folder.path()).size(), 2u);
}

}  // namespace
}  // namespace tandem

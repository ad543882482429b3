// The loss scale's history, as metrics.jsonl tells it.
#include "train/run_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "train/run.h"

namespace tandem {
namespace {

std::string history_of(const std::string& lines) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("tandem history " + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "metrics.jsonl") << lines;
  const std::string text = loss_scale_history(folder);
  std::filesystem::remove_all(folder);
  return text;
}

const std::string kOverflow =
    R"x({"kind":"step","step":1,"scale":65536,"event":"good"}
{"kind":"event","step":3,"event":"loss_scale","text":"65536 -> 32768 (overflow)"}
{"kind":"step","step":3,"scale":65536,"event":"overflow"}
{"kind":"step","step":10,"scale":32768,"event":"good"}
)x";

TEST(LossScaleHistory, TellsEveryChangeAndItsCause) {
  EXPECT_EQ(history_of(kOverflow), "65536 -> 32768 (step 3, overflow); 1 skipped");
}

TEST(LossScaleHistory, AScaleThatIsOneThroughoutIsOff) {
  const std::string good = R"x({"kind":"step","step":1,"scale":1,"event":"good"}
{"kind":"step","step":2,"scale":1.0,"event":"good"}
)x";
  EXPECT_EQ(history_of(good), "off");
  EXPECT_EQ(history_of(good + R"x({"kind":"step","step":3,"scale":1,"event":"forward"})x" + "\n"),
            "off; 1 skipped");
}

// Resumed in BF16, then in FP16 again, where a step that is not logged overflows first.
TEST(LossScaleHistory, ShowsThePrecisionsOfResumedRuns) {
  EXPECT_EQ(history_of(kOverflow + R"x({"kind":"step","step":20,"scale":1,"event":"good"}
{"kind":"event","step":31,"event":"loss_scale","text":"65536 -> 32768 (overflow)"}
{"kind":"step","step":40,"scale":32768.0,"event":"good"}
)x"),
            "65536 -> 32768 (step 3, overflow) -> 1 (step 20, resumed) -> 65536 (step 31, resumed) -> 32768 "
            "(step 31, overflow); 1 skipped");
}

}  // namespace
}  // namespace tandem

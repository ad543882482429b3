// The progress line: its text, and when it is shown on a terminal and elsewhere. Time is the test's.
#include "train/progress.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem {
namespace {

TEST(Progress, TextAndDurations) {
  EXPECT_EQ(progress_text({.step = 120,
                           .total = 800,
                           .loss = 0.81234,
                           .lr = 0.0019,
                           .scale = 65536,
                           .skips = 3,
                           .step_ms = 245}),
            "step 120/800  loss 0.8123  lr 0.0019  scale 65536  skips 3  245 ms/step  eta 2:47");
  EXPECT_EQ(progress_text({.step = 8, .total = 8, .loss = 1, .lr = 0, .scale = 1, .skips = 0, .step_ms = 10}),
            "step 8/8  loss 1  lr 0  scale 1  skips 0  10 ms/step");
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(-5), "0:00");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(725), "12:05");
  EXPECT_EQ(duration_text(3 * 3600 + 2 * 60 + 9), "3:02:09");
}

struct Screen {
  std::vector<std::string> writes;
  double now = 100;

  ProgressOptions options(bool terminal, bool enabled = true) {
    return {.enabled = enabled,
            .terminal = terminal,
            .write = [this](std::string_view text) { writes.emplace_back(text); },
            .now = [this] { return now; }};
  }
};

ProgressState at(std::int64_t step) { return {.step = step, .total = 1000, .loss = 1, .step_ms = 10}; }

TEST(Progress, ATerminalShowsOneLineRedrawnAtMostTenTimesASecond) {
  Screen screen;
  Progress progress(screen.options(true));
  progress.update(at(1));
  screen.now += 0.05;
  progress.update(at(2));
  screen.now += 0.06;
  progress.update(at(3));
  ASSERT_EQ(screen.writes.size(), 2u);
  EXPECT_EQ(screen.writes[0], "\r\x1b[K" + progress_text(at(1)));
  EXPECT_EQ(screen.writes[1], "\r\x1b[K" + progress_text(at(3)));
  progress.clear();
  progress.clear();
  ASSERT_EQ(screen.writes.size(), 3u);
  EXPECT_EQ(screen.writes[2], "\r\x1b[K");
}

TEST(Progress, ElsewhereALineEachThirtySecondsAndAtTheEnd) {
  Screen screen;
  {
    Progress progress(screen.options(false));
    for (std::int64_t step = 1; step <= 1000; ++step) {
      progress.update(at(step));
      screen.now += 0.1;  // 100 s in all
    }
  }
  ASSERT_EQ(screen.writes.size(), 4u);
  EXPECT_EQ(screen.writes.back(), progress_text(at(1000)) + "\n");
}

TEST(Progress, NoneWhenSwitchedOff) {
  Screen screen;
  {
    Progress progress(screen.options(true, false));
    progress.update(at(1));
    progress.update(at(1000));
  }
  EXPECT_TRUE(screen.writes.empty());
}

TEST(Progress, MillisecondsAreSmoothed) {
  Screen screen;
  Progress progress(screen.options(true));
  progress.update(at(1));
  screen.now += 1;
  ProgressState slow = at(2);
  slow.step_ms = 110;
  progress.update(slow);
  EXPECT_NE(screen.writes[1].find("20 ms/step"), std::string::npos)
      << screen.writes[1];  // 10 + 0.1 (110 - 10)
}

}  // namespace
}  // namespace tandem

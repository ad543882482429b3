// Stop signals, each in a child process that raises them itself.
#include "train/signals.h"

#include <gtest/gtest.h>

#include "tests/train/checkpoint_content.h"

namespace tandem {
namespace {

using testing::status_in_child;

TEST(StopSignals, NothingIsRequestedAtFirst) {
  EXPECT_EQ(status_in_child([] {
              const StopSignals signals;
              return !signals.requested() && signals.name().empty() ? 0 : 1;
            }),
            0);
}

TEST(StopSignals, EachStopSignalSetsTheFlagAndItsName) {
  for (const auto& [signal, name] : {std::pair{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"}})
    EXPECT_EQ(status_in_child([signal = signal, name = name] {
                const StopSignals signals;
                ::raise(signal);
                return signals.requested() && signals.name() == name ? 0 : 1;
              }),
              0)
        << name;
}

TEST(StopSignals, TheSecondInterruptEndsAtOnceWith130) {
  EXPECT_EQ(status_in_child([] {
              const StopSignals signals;
              ::raise(SIGINT);
              ::raise(SIGINT);
              return 0;
            }),
            130);
  EXPECT_EQ(status_in_child([] {
              const StopSignals signals;
              ::raise(SIGTERM);
              ::raise(SIGINT);
              ::raise(SIGINT);
              return 0;
            }),
            130);
}

TEST(StopSignals, OtherRepetitionsLetTheCheckpointBeFinished) {
  EXPECT_EQ(status_in_child([] {
              const StopSignals signals;
              for (const int signal : {SIGTERM, SIGTERM, SIGUSR1, SIGINT, SIGTERM, SIGUSR1}) ::raise(signal);
              return signals.name() == "SIGTERM" ? 75 : 1;
            }),
            75);
}

TEST(StopSignals, TheHandlersBeforeAreRestored) {
  EXPECT_EQ(status_in_child([] {
              { const StopSignals signals; }
              ::raise(SIGTERM);
              return 0;
            }),
            128 + SIGTERM);
  EXPECT_EQ(status_in_child([] {
              std::signal(SIGINT, SIG_IGN);
              { const StopSignals signals; }
              ::raise(SIGINT);
              return 3;
            }),
            3);
}

TEST(StopSignals, ANewObjectStartsWithoutARequest) {
  EXPECT_EQ(status_in_child([] {
              {
                const StopSignals signals;
                ::raise(SIGINT);
              }
              const StopSignals signals;
              if (signals.requested()) return 1;
              ::raise(SIGINT);
              return signals.requested() ? 0 : 2;
            }),
            0);
}

TEST(StopSignals, LimitsAndClosedPipesBecomeErrorsOfTheCall) {
  EXPECT_EQ(status_in_child([] {
              const StopSignals signals;
              ::raise(SIGXFSZ);
              ::raise(SIGPIPE);
              return signals.requested() ? 1 : 0;
            }),
            0);
}

TEST(StopSignals, TwoAtATimeAreABug) {
  const StopSignals signals;
  EXPECT_THROW(StopSignals(), Error);
}

}  // namespace
}  // namespace tandem

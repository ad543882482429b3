// The handler does nothing but set lock-free flags, write a line (and _exit), all async-signal-safe.
#include "train/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>

#include "core/base/error.h"

namespace tandem {
namespace {

// A handler can only reach static data; one StopSignals owns it at a time.
std::atomic<int> first_signal{0};
std::atomic<int> interrupts{0};
std::atomic<bool> installed{false};
std::atomic<int> answers{0};  // row of kAnswers
static_assert(std::atomic<int>::is_always_lock_free);

constexpr int kStops[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
constexpr int kIgnored[] = {SIGXFSZ, SIGPIPE};
constexpr int kInterruptedStatus = 130;

// By StopPoint; the first answers SIGINT, the second the others.
constexpr std::string_view kAnswers[][2] = {{"stopping after this step; Ctrl-C again stops at once\n",
                                             "stopping after this step; Ctrl-C twice stops at once\n"},
                                            {"stopping after this window; Ctrl-C again stops at once\n",
                                             "stopping after this window; Ctrl-C twice stops at once\n"}};

extern "C" void tandem_on_stop_signal(int signal) {
  if (signal == SIGINT && interrupts.fetch_add(1) > 0) _exit(kInterruptedStatus);
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) return;
  const int saved = errno;
  const std::string_view answer = kAnswers[answers][signal == SIGINT ? 0 : 1];
  // Not through the log: its locks may be held. Nothing can be done if it fails.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, answer.data(), answer.size());
  errno = saved;
}

}  // namespace

StopSignals::StopSignals(StopPoint point) {
  check_internal(!installed.exchange(true), "two StopSignals at the same time");
  first_signal = 0;
  interrupts = 0;
  answers = static_cast<int>(point);
  struct sigaction action {};
  sigfillset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // reads and writes under way are not disturbed
  std::size_t i = 0;
  action.sa_handler = &tandem_on_stop_signal;
  for (const int signal : kStops) {
    ::sigaction(signal, nullptr, &previous_[i]);
    // nohup: a closed terminal is to be ignored.
    const bool stays_ignored = signal == SIGHUP && previous_[i].sa_handler == SIG_IGN;
    if (!stays_ignored) ::sigaction(signal, &action, nullptr);
    ++i;
  }
  action.sa_handler = SIG_IGN;
  for (const int signal : kIgnored) ::sigaction(signal, &action, &previous_[i++]);
}

StopSignals::~StopSignals() {
  std::size_t i = 0;
  for (const int signal : kStops) ::sigaction(signal, &previous_[i++], nullptr);
  for (const int signal : kIgnored) ::sigaction(signal, &previous_[i++], nullptr);
  installed = false;
}

bool StopSignals::requested() const { return first_signal != 0; }

std::string StopSignals::name() const {
  switch (first_signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "";
  }
}

}  // namespace tandem

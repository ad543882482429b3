// Requests to stop from outside: SIGTERM, SIGINT, SIGUSR1 and (unless ignored, as under nohup)
// SIGHUP become a flag that training reads between steps,
// in validation and while it waits for data. What happens then (checkpoint, exit 75) is the trainer's.
#pragma once

#include <csignal>
#include <cstddef>
#include <string>

namespace tandem {

// What is finished after a stop signal: the answer on stderr says so.
enum class StopPoint { kStep, kWindow };

// Handlers are installed while an object lives; at most one at a time. The first signal is answered at once
// by a line on stderr. A second SIGINT ends the process at once with status 130; any other repetition changes
// nothing, so a checkpoint in the making is finished. SIGXFSZ is ignored meanwhile: a file-size limit is then
// an error of the write. SIGPIPE likewise.
class StopSignals {
 public:
  explicit StopSignals(StopPoint point = StopPoint::kStep);
  ~StopSignals();  // restores what was there
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // True from the first signal on; safe from any thread.
  bool requested() const;
  // Name of the first signal received: "SIGTERM"; empty if none.
  std::string name() const;

 private:
  static constexpr std::size_t kSignals = 6;
  struct sigaction previous_[kSignals];
};

}  // namespace tandem

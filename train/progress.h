// The progress of a run for people: one redrawn line on a terminal, a plain line each 30 s elsewhere. To
// stderr; numbers for machines are metrics_log's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

struct ProgressState {
  std::int64_t step = 0, total = 0;
  double loss = 0, lr = 0, scale = 1;
  std::int64_t skips = 0;  // steps that were not applied
  double step_ms = 0;      // of a typical recent step, all waits included
};

// "step 120/800  loss 0.812  lr 0.0019  scale 65536  skips 3  245 ms/step  eta 2:46"
std::string progress_text(const ProgressState& state);
// "0:07", "12:05", "3:02:09"
std::string duration_text(double seconds);

struct ProgressOptions {
  bool enabled = true;           // --no-progress
  std::optional<bool> terminal;  // nothing: whether stderr is one
  // Where text goes and what time it is, in seconds; replaced by tests.
  std::function<void(std::string_view)> write;
  std::function<double()> now;
};

class Progress {
 public:
  explicit Progress(ProgressOptions options = {});
  ~Progress();  // as clear()
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // After each step: redraws at most ten times a second, or prints a line when 30 s have passed since the
  // last one. step_ms is smoothed over recent steps here.
  void update(ProgressState state);
  // Removes the line from a terminal, so that other messages stand alone; the next update draws it again.
  void clear();

 private:
  ProgressOptions options_;
  double smooth_ms_ = 0;
  std::optional<double> last_output_;
  bool drawn_ = false;
};

}  // namespace tandem

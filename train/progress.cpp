// Text of the progress line and when it is shown.
#include "train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>

namespace tandem {
namespace {

constexpr double kRedrawSeconds = 0.1, kPlainSeconds = 30;
constexpr double kSmoothing = 0.1;  // weight of the newest step
constexpr const char* kClearLine = "\r\x1b[K";

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string duration_text(double seconds) {
  const auto total = static_cast<std::int64_t>(std::llround(std::fmax(seconds, 0)));
  if (total >= 3600) return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string progress_text(const ProgressState& s) {
  std::string text = fmt::format("step {}/{}  loss {:.4g}  lr {:.3g}  scale {:g}  skips {}  {:.0f} ms/step",
                                 s.step, s.total, s.loss, s.lr, s.scale, s.skips, s.step_ms);
  if (s.total > s.step && s.step_ms > 0)
    text += "  eta " + duration_text(static_cast<double>(s.total - s.step) * s.step_ms / 1000);
  return text;
}

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (!options_.terminal) options_.terminal = ::isatty(STDERR_FILENO) == 1;
  if (!options_.write)
    options_.write = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); };
  if (!options_.now) options_.now = &steady_seconds;
}

Progress::~Progress() { clear(); }

void Progress::update(ProgressState state) {
  if (!options_.enabled) return;
  smooth_ms_ = smooth_ms_ == 0 ? state.step_ms : smooth_ms_ + kSmoothing * (state.step_ms - smooth_ms_);
  state.step_ms = smooth_ms_;
  const double now = options_.now();
  if (!last_output_ && !*options_.terminal) last_output_ = now;  // the first plain line comes after 30 s
  const double pause = *options_.terminal ? kRedrawSeconds : kPlainSeconds;
  if (last_output_ && now - *last_output_ < pause && state.step < state.total) return;
  last_output_ = now;
  if (*options_.terminal)
    options_.write(kClearLine + progress_text(state));
  else
    options_.write(progress_text(state) + "\n");
  drawn_ = *options_.terminal;
}

void Progress::clear() {
  if (!drawn_) return;
  options_.write(kClearLine);
  drawn_ = false;
}

}  // namespace tandem

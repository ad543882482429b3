// Appending lines with one write(2) each, and cutting a log back to a checkpoint.
#include "train/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "core/base/error.h"
#include "train/json.h"
#include "train/numerics.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_io(const fs::path& path, std::string_view what) {
  fail(ErrorKind::kResource, "[metrics] {}: {} failed: {}", path.string(), what, std::strerror(errno));
}

// The step of a line; nothing if the line is no complete record.
std::optional<std::int64_t> step_of_line(std::string_view line) {
  const auto members = parse_json_object(line);
  if (!members || !members->contains("step")) return std::nullopt;
  const std::string& text = members->at("step");
  std::int64_t step = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return step;
}

}  // namespace

std::string_view event_name(StepEvent event) {
  switch (event) {
    case StepEvent::kGood:
      return "good";
    case StepEvent::kOverflow:
      return "overflow";
    case StepEvent::kForward:
      break;
  }
  return "forward";
}

MetricsLog::MetricsLog(const fs::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_io(path_, "open");
}

MetricsLog::~MetricsLog() { ::close(descriptor_); }

void MetricsLog::write_line(const JsonObject& object) {
  const std::string line = object.text() + "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(descriptor_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_io(path_, "write");
    done += static_cast<std::size_t>(n);
  }
}

void MetricsLog::write(const StepMetrics& m) {
  JsonObject object;
  object.add("kind", "step").add("step", m.step).add("epoch", m.epoch);
  object.add("loss", static_cast<float>(m.loss)).add("lr", static_cast<float>(m.lr));
  object.add("scale", static_cast<float>(m.scale)).add("event", event_name(m.event));
  object.add("grad_norm", m.grad_norm).add("step_ms", m.step_ms).add("data_wait_ms", m.data_wait_ms);
  if (m.cause) object.add("cause", to_json(*m.cause));
  write_line(object);
}

void MetricsLog::write(const ValidationMetrics& m) {
  JsonObject object;
  object.add("kind", "val").add("step", m.step).add("epoch", m.epoch);
  if (m.loss) object.add("loss", static_cast<float>(*m.loss));
  object.add("dice", m.dice).add("mean_dice", m.mean_dice);
  for (const auto& [metric, value] : m.means) object.add("mean_" + metric, value);
  object.add("seconds", m.seconds);
  write_line(object);
}

void MetricsLog::write_event(std::int64_t step, std::string_view event, std::string_view text) {
  JsonObject object;
  object.add("kind", "event").add("step", step).add("event", event).add("text", text);
  write_line(object);
}

void MetricsLog::sync() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_io(path_, "fsync");
}

MetricsTruncation truncate_metrics(const fs::path& path, std::int64_t step) {
  MetricsTruncation result;
  std::error_code error;
  if (!fs::exists(path, error)) return result;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail_io(path, "open");
  std::uintmax_t end = 0;
  for (std::string line; std::getline(stream, line) && !stream.eof();) {  // eof: the last line has no newline
    const auto line_step = step_of_line(line);
    if (!line_step || *line_step > step) break;
    end += line.size() + 1;
    ++result.kept_lines;
  }
  result.cut = end != fs::file_size(path);
  if (!result.cut) return result;
  stream.close();
  fs::resize_file(path, end, error);
  if (error)
    fail(ErrorKind::kResource, "[metrics] {}: truncation failed: {}", path.string(), error.message());
  return result;
}

}  // namespace tandem

// metrics.jsonl: what happened in a run, one JSON object a line, each line handed to the system at once. The
// names of its fields are docs/formats.md's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/kernels/step_state.h"

namespace tandem {

class JsonObject;
struct NonfiniteCause;

// loss, lr and scale are FP32 quantities: written as the shortest decimals that read back to the same float.
struct StepMetrics {
  std::int64_t step = 0;  // attempted steps, this one included
  std::int64_t epoch = 0;
  double loss = 0, lr = 0, scale = 1;
  StepEvent event = StepEvent::kGood;  // written as good | overflow | forward
  double grad_norm = 0;
  double step_ms = 0, data_wait_ms = 0;
  const NonfiniteCause* cause = nullptr;  // of a step that was not good, if known
};

struct ValidationMetrics {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::optional<double> loss;
  std::vector<std::pair<std::string, double>> dice;  // per class, in the order of the job; NaN: class absent
  double mean_dice = 0;
  std::vector<std::pair<std::string, double>> means;  // of the other validate.metrics: mean_iou, ...
  double seconds = 0;
};

std::string_view event_name(StepEvent event);

class MetricsLog {
 public:
  // Opens for appending; Error{kResource}.
  explicit MetricsLog(const std::filesystem::path& path);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  // {"kind": "step", ...}, {"kind": "val", ...}, {"kind": "event", "step", "event": NAME, "text"};
  // Error{kResource}.
  void write(const StepMetrics& metrics);
  void write(const ValidationMetrics& metrics);
  void write_event(std::int64_t step, std::string_view event, std::string_view text);
  // fsync: to be called before a checkpoint is saved, so that no crash leaves metrics behind their
  // checkpoint.
  void sync();

 private:
  void write_line(const JsonObject& object);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// What truncate_metrics left out.
struct MetricsTruncation {
  std::int64_t kept_lines = 0;
  bool cut = false;  // anything was cut off
};

// Cuts metrics.jsonl after the last line that belongs to `step` or an earlier one, at the first line that is
// torn, not an object with a step, or later. A missing file is fine. Error{kResource}.
MetricsTruncation truncate_metrics(const std::filesystem::path& path, std::int64_t step);

}  // namespace tandem

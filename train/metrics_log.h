// metrics.jsonl: what happened in a run, one JSON object a line: its records, their writer, their one reader,
// and the cut on resume. The names of its fields are docs/formats.md's; CSV and TensorBoard follow from it in
// run_log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/kernels/step_state.h"
#include "train/append_file.h"

namespace tandem {

class JsonObject;
struct NonfiniteCause;

using NamedNumbers = std::vector<std::pair<std::string, double>>;

// loss, lr and scale are FP32 quantities: written as the shortest decimals that read back to the same float.
struct StepMetrics {
  std::int64_t step = 0;  // attempted steps, this one included
  std::int64_t epoch = 0;
  double loss = 0, lr = 0, scale = 1;
  StepEvent event = StepEvent::kGood;  // written as good | overflow | forward
  double grad_norm = 0;
  double step_ms = 0, data_wait_ms = 0;                   // the whole step, its waits included
  double forward_ms = 0, backward_ms = 0, update_ms = 0;  // parts of it; update: check, optimizer, scaler
  double gradient_amax = 0;  // mode headroom: the largest |gradient| stored in 16 bits, scaled; else 0
  const NonfiniteCause* cause = nullptr;  // of a step that was not good, if known
};

struct ValidationMetrics {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::optional<double> loss;
  NamedNumbers dice;  // per class, in the order of the job; NaN: class absent
  double mean_dice = 0;
  NamedNumbers means;  // of the other validate.metrics: "iou" is written as mean_iou
  double seconds = 0;
};

// Something that happened at a step: "loss_scale", "start", ...
struct EventMetrics {
  std::int64_t step = 0;
  std::string event, text;
};

// What this process used since its last such line (seconds) and since its start (bytes).
struct UsageMetrics {
  std::int64_t step = 0;
  NamedNumbers seconds;     // train, validate, save
  NamedNumbers peak_bytes;  // by memory category
  std::int64_t total_peak_bytes = 0;
};

std::string_view event_name(StepEvent event);

class MetricsLog {
 public:
  // Opens for appending; Error{kResource}.
  explicit MetricsLog(const std::filesystem::path& path) : file_(path) {}

  // {"kind": "step", ...}, {"kind": "val", ...}, {"kind": "event", "step", "event": NAME, "text"}, {"kind":
  // "usage",
  // ...}. A full disk does not stop them: AppendFile.
  void write(const StepMetrics& metrics);
  void write(const ValidationMetrics& metrics);
  void write(const EventMetrics& metrics);
  void write(const UsageMetrics& metrics);
  // To be called before a checkpoint is saved, so that no crash leaves metrics behind their checkpoint.
  // Error{kResource} if not everything is on the disk.
  void sync() { file_.sync(); }

 private:
  void write_line(const JsonObject& object);

  AppendFile file_;
};

// The records of one file, in order.
struct MetricsHistory {
  struct Step : StepMetrics {
    // Why the step was not applied, where the run found out: members pass, layer, op, tensor, index,
    // magnitude, samples; texts as they are, the others as JSON.
    std::map<std::string, std::string> cause_members;
  };
  std::vector<Step> steps;
  std::vector<ValidationMetrics> validations;
  std::vector<EventMetrics> events;
  std::vector<UsageMetrics> usage;
  std::int64_t unreadable_lines = 0;  // passed over: torn, not a JSON object, without a step, above 1 MiB
  std::int64_t first_unreadable_line = 0;  // counted from 1; 0: none

  // Steps and validations as they came: a validation behind the step it belongs to.
  void in_order(const std::function<void(const Step&)>& on_step,
                const std::function<void(const ValidationMetrics&)>& on_validation) const;
};

// Reads metrics.jsonl. A missing file is an empty history; lines of other kinds are passed over in silence.
// Error{kResource} for a folder, or a file that cannot be opened.
MetricsHistory read_metrics(const std::filesystem::path& path);

// What truncate_metrics left out.
struct MetricsTruncation {
  std::int64_t kept_lines = 0;        // readable ones
  std::int64_t unreadable_lines = 0;  // kept too: between readable ones
  bool cut = false;                   // anything was cut off
};

// Cuts metrics.jsonl after the last readable line that belongs to `step` or an earlier one, at the first line
// that belongs to a later one. Unreadable lines before that point stay where they are: what follows them is
// not lost for them. A missing file is fine. Error{kResource}.
MetricsTruncation truncate_metrics(const std::filesystem::path& path, std::int64_t step);

}  // namespace tandem

// The lines of metrics.jsonl as they are written; reading them is metrics_reader.cpp.
#include "train/metrics_log.h"

#include "train/json.h"
#include "train/numerics.h"

namespace tandem {

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

void MetricsLog::write_line(const JsonObject& object) { file_.append(object.text() + "\n"); }

void MetricsLog::write(const StepMetrics& m) {
  JsonObject object;
  object.add("kind", "step").add("step", m.step).add("epoch", m.epoch);
  object.add("loss", static_cast<float>(m.loss)).add("lr", static_cast<float>(m.lr));
  object.add("scale", static_cast<float>(m.scale)).add("event", event_name(m.event));
  object.add("grad_norm", m.grad_norm).add("step_ms", m.step_ms).add("data_wait_ms", m.data_wait_ms);
  object.add("forward_ms", m.forward_ms).add("backward_ms", m.backward_ms).add("update_ms", m.update_ms);
  if (m.gradient_amax > 0) object.add("gradient_amax", static_cast<float>(m.gradient_amax));
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

void MetricsLog::write(const EventMetrics& m) {
  JsonObject object;
  object.add("kind", "event").add("step", m.step).add("event", m.event).add("text", m.text);
  write_line(object);
}

void MetricsLog::write(const UsageMetrics& m) {
  JsonObject object;
  object.add("kind", "usage").add("step", m.step).add("seconds", m.seconds);
  object.add("peak_bytes", m.peak_bytes).add("total_peak_bytes", m.total_peak_bytes);
  write_line(object);
}

}  // namespace tandem

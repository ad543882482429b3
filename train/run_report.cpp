// Texts for people about a run.
#include "train/run_report.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/backends/cpu/isa.h"
#include "core/backends/cuda/cuda_plugin.h"
#include "core/base/counted.h"
#include "core/base/parallel.h"
#include "train/metrics_log.h"
#include "train/run.h"

namespace tandem {
namespace {

// How this CPU computes `dtype`.
std::string arithmetic_text(DType dtype) {
  const CpuTarget target = cpu_target();
  if (dtype == DType::kF32) return "FP32 arithmetic";
  if (target.isa == CpuIsa::kAmx)
    return dtype == DType::kBF16
               ? "AMX BF16"
               : "AMX, each FP16 value split exactly into two BF16; weight gradients of convolutions in FP32";
  return fmt::format("FP32 arithmetic on {} storage: 16 bits save memory here, not time",
                     dtype == DType::kBF16 ? "BF16" : "FP16");
}

std::string mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

// Steps and changes of the scale in order. A scale that no change explains came with a resume in another
// precision.
struct ScaleHistory {
  std::string first = "?";
  std::vector<EventMetrics> changes;

  // `scale` is that of the step's own loss; a change at the same step is later.
  void see_step(std::int64_t step, const std::string& scale) {
    if (changes.empty() || changes.back().step != step) see_scale(step, scale);
  }
  // text: "65536 -> 32768 (overflow)".
  void see_change(const EventMetrics& event) {
    const std::string& text = event.text;
    const std::size_t arrow = text.find(" -> ");
    see_scale(event.step, text.substr(0, arrow));
    if (arrow != std::string::npos) now_ = text.substr(arrow + 4, text.find(' ', arrow + 4) - arrow - 4);
    changes.push_back(event);
  }

 private:
  void see_scale(std::int64_t step, const std::string& scale) {
    if (now_.empty())
      first = scale;
    else if (number(now_) != number(scale))
      changes.push_back({step, "loss_scale", now_ + " -> " + scale + " (resumed)"});
    now_ = scale;
  }
  static float number(const std::string& text) {
    float value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

  std::string now_;
};

// A change is logged before the line of its step.
ScaleHistory scale_history(const MetricsHistory& history) {
  ScaleHistory scales;
  auto event = history.events.begin();
  const auto take_events = [&](std::int64_t until) {
    for (; event != history.events.end() && event->step <= until; ++event)
      if (event->event == "loss_scale") scales.see_change(*event);
  };
  for (const MetricsHistory::Step& step : history.steps) {
    take_events(step.step);
    scales.see_step(step.step, fmt::format("{}", static_cast<float>(step.scale)));
  }
  take_events(std::numeric_limits<std::int64_t>::max());
  return scales;
}

}  // namespace

void StepTimes::add(const StepReport& report) {
  if (count_++ == 0) return;
  total_ms_ += report.step_ms;
  wait_ms_ += report.data_wait_ms;
  each_ms_.push_back(static_cast<float>(report.step_ms));
}

double StepTimes::median_ms() const {
  if (each_ms_.empty()) return 0;
  std::vector<float> sorted = each_ms_;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2),
                   sorted.end());
  return sorted[sorted.size() / 2];
}

StepMetrics step_metrics(const StepReport& report, double loss_offset) {
  return {.step = report.step,
          .loss = report.loss + loss_offset,
          .lr = report.lr,
          .scale = report.scale,
          .event = report.event,
          .grad_norm = report.grad_norm,
          .step_ms = report.step_ms,
          .data_wait_ms = report.data_wait_ms,
          .forward_ms = report.forward_ms,
          .backward_ms = report.backward_ms,
          .update_ms = report.update_ms,
          .gradient_amax = report.gradient_amax,
          .cause = report.cause ? &*report.cause : nullptr};
}

ValidationMetrics validation_metrics(const SegmentationScores& scores,
                                     const std::vector<std::string>& metrics) {
  ValidationMetrics line{.mean_dice = scores.mean_dice()};
  for (std::size_t c = 1; c < scores.names().size(); ++c)
    line.dice.emplace_back(scores.names()[c], scores.summary(static_cast<std::int64_t>(c)).dice);
  for (const MetricRow& row : chosen_metrics(metrics))
    if (row.name != "dice") line.means.emplace_back(row.name, scores.mean(row.value));
  return line;
}

std::string start_report(const JobOptions& job, const ModelSession& session, Trainer& trainer,
                         std::int64_t cases) {
  const Context& context = session.context;
  std::string text = fmt::format("{} ({}, {}), compute {}: {}", name(context.device), name(cpu_isa()),
                                 counted(compute_threads(), "thread"), name(context.compute),
                                 arithmetic_text(context.compute));
  if (job.device == "auto" && !cuda::plugin().usable()) text += "\n" + cuda::plugin().reason;
  text +=
      fmt::format("\n{}: {}; {}, {}; {} of batch {} x {}", job.model.name,
                  counted(trainer.params().parameter_count(), "parameter"), counted(cases, "training case"),
                  counted(job.data.classes(), "class", "classes"), counted(job.train.total_steps(), "step"),
                  job.train.batch_size, to_string(Index3(job.patch.size)));
  return text;
}

std::string memory_text(const Device& device) {
  const MemoryStatistics statistics = allocator_of(device)->statistics();
  std::string parts;
  for (std::size_t i = 0; i < kMemoryCategories; ++i)
    if (statistics.peak[i] > 0)
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", name(static_cast<MemoryCategory>(i)),
                           mebibytes(statistics.peak[i]));
  return fmt::format("{} ({})", mebibytes(statistics.total_peak), parts);
}

std::string end_report(const Trainer& trainer, const StepTimes& times, const std::string& scale_history) {
  const StepState& state = trainer.state();
  const double wait_share = times.total_ms() > 0 ? 100 * times.wait_ms() / times.total_ms() : 0;
  return fmt::format(
      "{}: {} applied, {} skipped (overflow {}, forward {})\n"
      "median step {:.0f} ms, data wait {:.1f} %\npeak tensor memory {}\nloss scale {}",
      counted(state.attempted, "step"), state.applied, state.attempted - state.applied,
      state.skipped_overflow, state.skipped_forward, times.median_ms(), wait_share,
      memory_text(trainer.context().device), scale_history);
}

std::string loss_scale_history(const std::filesystem::path& run_folder) {
  return loss_scale_history(read_metrics(run_folder / "metrics.jsonl"));
}

std::string loss_scale_history(const MetricsHistory& history) {
  const ScaleHistory scales = scale_history(history);
  const std::vector<EventMetrics>& changes = scales.changes;
  const auto skips = std::ranges::count_if(
      history.steps, [](const MetricsHistory::Step& step) { return step.event != StepEvent::kGood; });
  std::string text = scales.first;
  constexpr std::size_t kShown = 6;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (i == kShown && changes.size() > 2 * kShown) {
      text += fmt::format(" ... {} more ...", changes.size() - 2 * kShown);
      i = changes.size() - kShown;
    }
    const std::size_t arrow = changes[i].text.find("-> ");
    const std::string now = arrow == std::string::npos ? changes[i].text : changes[i].text.substr(arrow + 3);
    const std::size_t cause = now.find(" (");
    text += fmt::format(" -> {} (step {}, {})", now.substr(0, cause), changes[i].step,
                        cause == std::string::npos ? "" : now.substr(cause + 2, now.size() - cause - 3));
  }
  // A scale that is 1 from the first to the last step scales nothing.
  if (text == "1") text = "off";
  return text == "off" && skips == 0 ? text : fmt::format("{}; {} skipped", text, skips);
}

}  // namespace tandem

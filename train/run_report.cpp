// Texts for people about a run.
#include "train/run_report.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "core/backends/cpu/isa.h"
#include "core/base/parallel.h"
#include "train/json.h"
#include "train/run.h"

namespace tandem {
namespace {

// How this CPU computes `dtype`.
std::string arithmetic_text(DType dtype) {
  const CpuTarget target = cpu_target();
  if (dtype == DType::kF32) return "FP32 arithmetic";
  if (target.isa == CpuIsa::kAmx)
    return dtype == DType::kBF16 ? "AMX BF16" : "AMX, each FP16 value split exactly into two BF16";
  if (dtype == DType::kBF16 && target.avx512_bf16) return "AVX-512 BF16";
  return fmt::format("FP32 arithmetic on {} storage: 16 bits save memory here, not time",
                     dtype == DType::kBF16 ? "BF16" : "FP16");
}

std::string mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

// The members of the event lines about the loss scale, in order.
struct ScaleChange {
  std::string step, text;
};

// Lines of metrics.jsonl in order. A scale that no event line explains came with a resume in another
// precision.
struct ScaleHistory {
  std::string first = "?";
  std::vector<ScaleChange> changes;

  // `scale` is that of the step's own loss; the event of the same step, which stands before it, is later.
  void see_step(const std::string& step, const std::string& scale) {
    if (changes.empty() || changes.back().step != step) see_scale(step, scale);
  }
  // text: "65536 -> 32768 (overflow)".
  void see_change(const std::string& step, const std::string& text) {
    const std::size_t arrow = text.find(" -> ");
    see_scale(step, text.substr(0, arrow));
    if (arrow != std::string::npos) now_ = text.substr(arrow + 4, text.find(' ', arrow + 4) - arrow - 4);
    changes.push_back({step, text});
  }

 private:
  void see_scale(const std::string& step, const std::string& scale) {
    if (now_.empty())
      first = scale;
    else if (number(now_) != number(scale))
      changes.push_back({step, now_ + " -> " + scale + " (resumed)"});
    now_ = scale;
  }
  static double number(const std::string& text) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

  std::string now_;
};

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

std::string start_report(const JobOptions& job, const ModelSession& session, Trainer& trainer,
                         std::int64_t cases) {
  const Context& context = session.context;
  std::string text = fmt::format("{} ({}, {} threads), compute {}: {}", name(context.device), name(cpu_isa()),
                                 compute_threads(), name(context.compute), arithmetic_text(context.compute));
  text += fmt::format("\n{}: {} parameters; {} training cases, {} classes; {} steps of batch {} x {}",
                      job.model.name, trainer.params().parameter_count(), cases, job.data.classes(),
                      job.train.total_steps(), job.train.batch_size, to_string(Index3(job.patch.size)));
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
      "{} steps: {} applied, {} skipped (overflow {}, forward {})\n"
      "median step {:.0f} ms, data wait {:.1f} %\npeak tensor memory {}\nloss scale {}",
      state.attempted, state.applied, state.attempted - state.applied, state.skipped_overflow,
      state.skipped_forward, times.median_ms(), wait_share, memory_text(trainer.context().device),
      scale_history);
}

std::string loss_scale_history(const std::filesystem::path& run_folder) {
  std::ifstream file(run_folder / "metrics.jsonl");
  ScaleHistory history;
  std::int64_t skips = 0;
  for (std::string line; std::getline(file, line);) {
    const auto members = parse_json_object(line);
    if (!members) continue;
    const auto value = [&](const char* key) {
      const auto it = members->find(key);
      return it == members->end() ? std::string() : it->second;
    };
    if (value("kind") == "step") history.see_step(value("step"), value("scale"));
    if (value("kind") == "step" && value("event") != "good") ++skips;
    if (value("kind") == "event" && value("event") == "loss_scale")
      history.see_change(value("step"), value("text"));
  }
  std::string text = history.first;
  const std::vector<ScaleChange>& changes = history.changes;
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
  return fmt::format("{}; {} skipped", text, skips);
}

}  // namespace tandem

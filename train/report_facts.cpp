// The head of report.html and the numbers behind it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/counted.h"
#include "data/label_map.h"
#include "train/html.h"
#include "train/report_sections.h"

namespace tandem {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Adds (or takes the larger of) named values, in the order of their first appearance.
template <class Combine>
void merge(NamedNumbers& into, const NamedNumbers& from, const Combine& combine) {
  for (const auto& [name, value] : from) {
    const auto it = std::ranges::find(into, name, [](const auto& entry) { return entry.first; });
    if (it == into.end())
      into.emplace_back(name, value);
    else
      it->second = combine(it->second, value);
  }
}

double value_of(const NamedNumbers& numbers, std::string_view name) {
  const auto it = std::ranges::find(numbers, name, [](const auto& entry) { return entry.first; });
  return it == numbers.end() ? 0 : it->second;
}

// Of the time in steps; from the step lines where a run left no usage lines.
double data_wait_share(const RunFacts& facts, const MetricsHistory& metrics) {
  double all = 0, wait = value_of(facts.seconds, "data_wait");
  for (const auto& [name, value] : facts.seconds)
    if (name != "validate" && name != "save") all += value;
  if (all == 0)
    for (const MetricsHistory::Step& step : metrics.steps) {
      all += step.step_ms;
      wait += step.data_wait_ms;
    }
  return all > 0 ? wait / all : 0;
}

std::vector<std::string> classes_of(const RunRecord& run) {
  std::vector<std::string> classes;
  if (run.job) {
    classes = LabelMap(run.job->data).output_names();  // classes or regions
    classes.erase(classes.begin());                    // background
  }
  for (const ValidationMetrics& validation : run.metrics.validations)
    for (const auto& [name, value] : validation.dice)
      if (std::ranges::find(classes, name) == classes.end()) classes.push_back(name);
  return classes;
}

std::string tile(const std::string& value, const std::string& name) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", value, name);
}

// The mean of the last tenth of the logged losses (at least 1, at most 50).
double late_loss(const MetricsHistory& metrics) {
  std::vector<double> losses;
  for (const MetricsHistory::Step& step : metrics.steps)
    if (std::isfinite(step.loss)) losses.push_back(step.loss);
  if (losses.empty()) return std::nan("");
  const std::size_t count = std::clamp<std::size_t>(losses.size() / 10, 1, 50);
  double sum = 0;
  for (std::size_t i = losses.size() - count; i < losses.size(); ++i) sum += losses[i];
  return sum / static_cast<double>(count);
}

std::string status_text(const RunFacts& facts) {
  if (facts.total_steps == 0) return counted(facts.steps, "step");
  if (facts.steps >= facts.total_steps) return "finished: " + counted(facts.steps, "step");
  return fmt::format("not finished: step {} of {}", facts.steps, facts.total_steps);
}

}  // namespace

RunFacts facts_of(const RunRecord& run) {
  RunFacts facts{.steps = run.last_step(), .total_steps = run.job ? run.job->train.total_steps() : 0};
  std::vector<double> times;
  for (const MetricsHistory::Step& step : run.metrics.steps) {
    facts.skipped += step.event != StepEvent::kGood;
    if (step.step_ms > 0 && &step != &run.metrics.steps.front()) times.push_back(step.step_ms);
  }
  facts.median_step_ms = median(std::move(times));
  for (const UsageMetrics& usage : run.metrics.usage) {
    merge(facts.seconds, usage.seconds, [](double a, double b) { return a + b; });
    merge(facts.peak_bytes, usage.peak_bytes, [](double a, double b) { return std::max(a, b); });
    facts.total_peak_bytes = std::max(facts.total_peak_bytes, static_cast<double>(usage.total_peak_bytes));
  }
  facts.data_wait_share = data_wait_share(facts, run.metrics);
  facts.classes = classes_of(run);
  return facts;
}

std::string head_section(const RunRecord& run, const RunFacts& facts) {
  std::string out =
      fmt::format("<header>\n<h1>{}</h1>\n<p class=\"soft\">{}{}</p>\n", html_escaped(run.name),
                  run.job ? "job " + html_escaped(run.job->name) + ", " : "", status_text(facts));
  for (auto event = run.metrics.events.rbegin(); event != run.metrics.events.rend(); ++event)
    if (event->event == "start") {
      std::string text = html_escaped(event->text);
      for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text.replace(at, 1, "<br>");
      out += "<p>" + text + "</p>\n";
      break;
    }
  out += "<div class=\"tiles\">\n";
  if (!run.metrics.validations.empty()) {
    const auto best = std::ranges::max_element(run.metrics.validations, {}, [](const ValidationMetrics& v) {
      return std::isnan(v.mean_dice) ? -1 : v.mean_dice;
    });
    out += tile(number_text(run.metrics.validations.back().mean_dice), "mean Dice, last validation");
    if (best->step != run.metrics.validations.back().step)
      out += tile(number_text(best->mean_dice), fmt::format("best mean Dice, at step {}", best->step));
  }
  out += tile(number_text(late_loss(run.metrics), 3), "training loss, mean of the last tenth");
  out += tile(fmt::format("{}", facts.skipped), facts.skipped == 1 ? "step skipped" : "steps skipped");
  if (facts.median_step_ms > 0) out += tile(fmt::format("{:.0f} ms", facts.median_step_ms), "median step");
  out += tile(percent_text(facts.data_wait_share), "of it waiting for data");
  if (facts.total_peak_bytes > 0) out += tile(bytes_text(facts.total_peak_bytes), "peak tensor memory");
  return out + "</div>\n</header>\n";
}

}  // namespace tandem

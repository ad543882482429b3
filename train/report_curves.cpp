// The curves of report.html.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "train/html.h"
#include "train/png.h"
#include "train/report_sections.h"
#include "train/svg_chart.h"

namespace tandem {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr const char* kInk = "var(--ink)";
constexpr const char* kAccent = "var(--accent)";
constexpr std::size_t kMaxNamedClasses = 10;  // more are one faint bundle

Points points_of(const RunRecord& run, double StepMetrics::*value) {
  Points points;
  for (const MetricsHistory::Step& step : run.metrics.steps)
    points.emplace_back(static_cast<double>(step.step), step.*value);
  return points;
}

// What all charts over steps share: the range, and lines where the run was resumed.
Chart step_chart(const RunRecord& run, const RunFacts& facts, std::string title, std::string y_name) {
  Chart chart{.title = std::move(title), .y_name = std::move(y_name)};
  chart.x_max = static_cast<double>(std::max<std::int64_t>(facts.steps, 1));
  for (const EventMetrics& event : run.metrics.events)
    if (event.event == "start" && event.step > 0)
      chart.lines.push_back({static_cast<double>(event.step), fmt::format("resumed at step {}", event.step)});
  return chart;
}

std::string loss_chart(const RunRecord& run, const RunFacts& facts) {
  Chart chart = step_chart(run, facts, "Training loss", "loss");
  const Points points = points_of(run, &StepMetrics::loss);
  const bool smooth = points.size() >= 20;
  chart.series.push_back(
      {.name = smooth ? "each step logged" : "loss", .color = kAccent, .points = points, .is_faint = smooth});
  if (smooth)
    chart.series.push_back(
        {.name = "smoothed",
         .color = kAccent,
         .points = smoothed(points, std::clamp(25.0 / static_cast<double>(points.size()), 0.02, 0.3)),
         .is_strong = true});
  return svg_chart(chart);
}

std::string dice_chart(const RunRecord& run, const RunFacts& facts) {
  if (run.metrics.validations.empty()) return "";
  Chart chart = step_chart(run, facts, "Validation Dice", "Dice");
  chart.y_min = 0;
  chart.y_max = 1;
  const bool named = facts.classes.size() <= kMaxNamedClasses;
  for (std::size_t c = 0; c < facts.classes.size(); ++c) {
    ChartSeries series{
        .name = named ? facts.classes[c] : "",
        .color = named ? css_color(class_color(static_cast<std::int64_t>(c + 1))) : "var(--soft)",
        .has_dots = named,
        .is_faint = !named};
    for (const ValidationMetrics& validation : run.metrics.validations)
      for (const auto& [name, value] : validation.dice)
        if (name == facts.classes[c]) series.points.emplace_back(static_cast<double>(validation.step), value);
    chart.series.push_back(std::move(series));
  }
  ChartSeries mean{.name = "mean", .color = kInk, .has_dots = true, .is_strong = true};
  for (const ValidationMetrics& validation : run.metrics.validations)
    mean.points.emplace_back(static_cast<double>(validation.step), validation.mean_dice);
  chart.series.push_back(std::move(mean));
  return svg_chart(chart);
}

std::string scale_chart(const RunRecord& run, const RunFacts& facts) {
  Chart chart = step_chart(run, facts, "Loss scale", "scale");
  chart.is_log2 = true;
  chart.series.push_back({.color = kAccent, .points = points_of(run, &StepMetrics::scale), .is_step = true});
  for (const MetricsHistory::Step& step : run.metrics.steps) {
    if (step.event == StepEvent::kGood) continue;
    std::string title = fmt::format("step {} skipped: {}", step.step, event_name(step.event));
    for (const char* key : {"layer", "place"})
      if (const auto it = step.cause_members.find(key); it != step.cause_members.end() && !it->second.empty())
        title += fmt::format("{}{}", it->second.starts_with("after ") ? " " : " in ", it->second);
    chart.ticks.push_back({static_cast<double>(step.step), title});
  }
  std::string html = svg_chart(chart);
  if (!chart.ticks.empty())
    html.insert(html.rfind("</figure>"),
                "<div class=\"legend\"><span><i style=\"background:var(--bad)\"></i>"
                "skipped step</span></div>\n");
  return html;
}

std::string time_chart(const RunRecord& run, const RunFacts& facts) {
  Chart chart = step_chart(run, facts, "Time of a step", "ms");
  chart.y_min = 0;
  chart.series.push_back({.name = "step", .color = kAccent, .points = points_of(run, &StepMetrics::step_ms)});
  chart.series.push_back({.name = "waiting for data",
                          .color = "var(--bad)",
                          .points = points_of(run, &StepMetrics::data_wait_ms)});
  for (ChartSeries& series : chart.series)
    std::erase_if(series.points, [](const auto& point) { return point.second <= 0 && point.first <= 1; });
  return svg_chart(chart);
}

std::string plain_chart(const RunRecord& run, Chart chart, double StepMetrics::*value) {
  chart.series.push_back({.color = kAccent, .points = points_of(run, value)});
  return svg_chart(chart);
}

}  // namespace

std::string curves_section(const RunRecord& run, const RunFacts& facts) {
  std::string out = "<section>\n<h2>Curves</h2>\n";
  if (run.metrics.steps.empty()) return out + "<p class=\"soft\">No step is logged yet.</p>\n</section>\n";
  out += "<div class=\"charts\">\n" + loss_chart(run, facts) + dice_chart(run, facts);
  out += plain_chart(run, step_chart(run, facts, "Learning rate", "lr"), &StepMetrics::lr);
  out += scale_chart(run, facts);
  out += plain_chart(run, step_chart(run, facts, "Gradient norm, unscaled, before clipping", "norm"),
                     &StepMetrics::grad_norm);
  return out + time_chart(run, facts) + "</div>\n</section>\n";
}

}  // namespace tandem

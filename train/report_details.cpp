// Precision, cost, cases and job: the tables of report.html.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/counted.h"
#include "train/html.h"
#include "train/png.h"
#include "train/report_sections.h"
#include "train/run.h"

namespace tandem {
namespace {

constexpr std::size_t kMaxSkipRows = 12;

std::string why(StepEvent event) {
  return event == StepEvent::kOverflow ? "gradient not finite" : "loss or activation not finite";
}

std::string member(const std::map<std::string, std::string>& members, const char* key) {
  const auto it = members.find(key);
  return it == members.end() ? "" : it->second;
}

std::string used_precision(const RunRecord& run) {
  std::string list;
  const auto line = [&list](const std::string& what, const std::string& used) {
    list += fmt::format("<dt>{}</dt><dd>{}</dd>\n", what, html_escaped(used));
  };
  const std::string compute = member(run.environment, "compute");
  if (!compute.empty())
    line("activations and compute copies",
         fmt::format("{} on {} ({}, threads: {})", compute, member(run.environment, "device"),
                     member(run.environment, "isa"), member(run.environment, "threads")));
  line("master weights, optimizer, norms, biases, losses", "F32");
  if (run.job) {
    JobOptions job = *run.job;
    if (!job.precision.fp32_layers.empty())
      line("layers kept in F32", fmt::format("{}", fmt::join(job.precision.fp32_layers, ", ")));
    std::string scaling = to_flow_yaml(fields(job.precision.loss_scale).emit());
    line("loss scaling", scaling.substr(1, scaling.size() - 2));
  }
  return "<dl>\n" + list + "</dl>\n";
}

std::string cause_text(const std::map<std::string, std::string>& cause) {
  std::string text = member(cause, "layer");
  if (text.empty()) text = member(cause, "place");
  if (const std::string op = member(cause, "op"); !op.empty()) text += (text.empty() ? "" : ", ") + op;
  if (const std::string pass = member(cause, "pass"); !pass.empty()) text += " (" + pass + ")";
  return text;
}

std::string first_skip(const MetricsHistory::Step& step) {
  std::string text = fmt::format("The first skipped step was step {} at scale {}: {}", step.step,
                                 number_text(step.scale, 9), why(step.event));
  if (!step.cause_members.empty()) {
    text += fmt::format(", first in <b>{}</b>", html_escaped(cause_text(step.cause_members)));
    if (const std::string tensor = member(step.cause_members, "tensor"); !tensor.empty())
      text += ", " + html_escaped(tensor) + html_escaped(member(step.cause_members, "index"));
  }
  return "<p>" + text + ".</p>\n";
}

std::string skip_table(const std::vector<const MetricsHistory::Step*>& skips) {
  const bool has_causes =
      std::ranges::any_of(skips, [](const auto* step) { return !step->cause_members.empty(); });
  std::vector<std::string> header{"step", "scale", "why"};
  if (has_causes)
    header.insert(header.end(), {"layer or place, op (pass)", "tensor", "index", "magnitude", "samples"});
  HtmlTable table(header);
  for (std::size_t i = 0; i < std::min(skips.size(), kMaxSkipRows); ++i) {
    const MetricsHistory::Step& step = *skips[i];
    table.row({fmt::format("{}", step.step), number_text(step.scale, 9), why(step.event),
               html_escaped(cause_text(step.cause_members)),
               html_escaped(member(step.cause_members, "tensor")),
               html_escaped(member(step.cause_members, "index")),
               html_escaped(member(step.cause_members, "magnitude")),
               html_escaped(member(step.cause_members, "samples"))});
  }
  std::string out = table.html();
  if (skips.size() > kMaxSkipRows)
    out += fmt::format("<p class=\"soft\">{} more in metrics.jsonl.</p>\n", skips.size() - kMaxSkipRows);
  return out;
}

// Which layers were to blame, most often first.
std::string blamed_layers(const std::vector<const MetricsHistory::Step*>& skips) {
  std::map<std::string, int> counts;
  for (const auto* step : skips)
    if (const std::string layer = member(step->cause_members, "layer"); !layer.empty()) ++counts[layer];
  if (counts.empty() || skips.size() < 2) return "";
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [layer, count] : counts) order.emplace_back(-count, layer);
  std::sort(order.begin(), order.end());
  std::string text;
  for (const auto& [count, layer] : order)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", html_escaped(layer), -count);
  return "<p>Skips by layer: " + text + ".</p>\n";
}

std::string phase_name(const std::string& key) {
  static const std::map<std::string, std::string> kNames{
      {"data_wait", "waiting for data"}, {"forward", "forward"},        {"backward", "backward"},
      {"update", "check and update"},    {"other", "rest of the step"}, {"validate", "validation"},
      {"save", "saving checkpoints"}};
  const auto it = kNames.find(key);
  return it == kNames.end() ? key : it->second;
}

// Parts of a whole as a bar, and as a table with `shown` of each value.
template <class Show>
std::string parts(const NamedNumbers& values, const std::string& what, const Show& shown) {
  double sum = 0;
  for (const auto& [name, value] : values) sum += value;
  if (!(sum > 0)) return "";
  std::string bar = "<div class=\"stack\">";
  HtmlTable table({what, "", "share"});
  std::int64_t color = 0;
  for (const auto& [name, value] : values) {
    const std::string css = css_color(class_color(++color));
    const std::string label = html_escaped(phase_name(name));
    bar += fmt::format("<i style=\"width:{:.2f}%;background:{}\" title=\"{}: {}\"></i>", 100 * value / sum,
                       css, label, shown(value));
    table.row({fmt::format("<i class=\"swatch\" style=\"background:{}\"></i>{}", css, label), shown(value),
               percent_text(value / sum)});
  }
  return bar + "</div>\n" + table.html();
}

}  // namespace

std::string precision_section(const RunRecord& run, const RunFacts& facts) {
  std::string out =
      "<section>\n<h2>Precision and loss scale</h2>\n<div class=\"card\">\n" + used_precision(run);
  out += "</div>\n<div class=\"card\">\n";
  std::vector<const MetricsHistory::Step*> skips;
  for (const MetricsHistory::Step& step : run.metrics.steps)
    if (step.event != StepEvent::kGood) skips.push_back(&step);
  out += fmt::format("<p>The scale over the run: {}.</p>\n", html_escaped(loss_scale_history(run.metrics)));
  if (skips.empty())
    out += "<p>No step was skipped.</p>\n";
  else
    out += fmt::format(
               "<p>{} of {} skipped ({}): their gradients were thrown away and nothing but the "
               "scale changed.</p>\n",
               skips.size(), counted(facts.steps, "step"),
               percent_text(static_cast<double>(skips.size()) /
                            static_cast<double>(std::max<std::int64_t>(facts.steps, 1)))) +
           first_skip(*skips.front()) + blamed_layers(skips) + skip_table(skips);
  return out + "</div>\n</section>\n";
}

std::string cost_section(const RunFacts& facts) {
  const std::string time = parts(facts.seconds, "phase", seconds_text);
  const std::string memory = parts(facts.peak_bytes, "peak of", bytes_text);
  if (time.empty() && memory.empty()) return "";
  std::string out = "<section>\n<h2>Time and memory</h2>\n";
  if (!time.empty()) out += "<div class=\"card\">\n<h3>Where the time went</h3>\n" + time + "</div>\n";
  if (!memory.empty())
    out += "<div class=\"card\">\n<h3>Tensor memory</h3>\n" + memory +
           fmt::format(
               "<p class=\"soft\">Largest at one time: {}. The categories peak at different "
               "times.</p>\n</div>\n",
               bytes_text(facts.total_peak_bytes));
  return out + "</section>\n";
}

std::string job_section(const RunRecord& run) {
  if (run.config_yaml.empty()) return "";
  return "<section>\n<h2>Job</h2>\n<div "
         "class=\"card\">\n<details>\n<summary>config.resolved.yaml</summary>\n<pre>" +
         html_escaped(run.config_yaml) + "</pre>\n</details>\n</div>\n</section>\n";
}

}  // namespace tandem

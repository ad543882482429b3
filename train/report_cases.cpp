// Scores per case and pictures of report.html.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "train/html.h"
#include "train/png.h"
#include "train/report_sections.h"

namespace tandem {
namespace {

// A picture is shown at most this large, in CSS pixels.
constexpr double kMaxShownWidth = 230, kMaxShownHeight = 260;

std::string score_cell(double value, bool is_share) {
  if (std::isnan(value)) return "<span class=\"soft\">–</span>";
  if (!is_share) return fmt::format("{:.2f}", value);
  return fmt::format("<span class=\"bar\" style=\"--share:{:.1f}%\">{:.4f}</span>",
                     100 * std::clamp(value, 0.0, 1.0), value);
}

double value_of(const NamedNumbers& numbers, const std::string& name) {
  for (const auto& [key, value] : numbers)
    if (key == name) return value;
  return std::nan("");
}

// Names of the metrics of all cases, in order of appearance.
std::vector<std::string> metrics_of(const ValidationRecord& validation) {
  std::vector<std::string> names;
  for (const CaseRecord& one : validation.cases)
    for (const auto& [name, values] : one.metrics)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

// Values of one metric: a row per case, a column per class.
std::string score_table(const ValidationRecord& validation, const RunFacts& facts,
                        const std::string& metric) {
  std::vector<std::string> header{"case"};
  const bool has_mean = metric == "dice";
  if (has_mean) header.push_back("mean");
  for (const std::string& name : facts.classes) header.push_back(html_escaped(name));
  const std::set<std::string> shares{"dice", "iou", "nsd"};
  HtmlTable table(header);
  for (const CaseRecord& one : validation.cases) {
    std::vector<std::string> cells{html_escaped(one.id)};
    if (has_mean) cells.push_back(score_cell(one.mean_dice, true));
    const auto values = std::ranges::find(one.metrics, metric, [](const auto& entry) { return entry.first; });
    for (const std::string& name : facts.classes)
      cells.push_back(score_cell(values == one.metrics.end() ? std::nan("") : value_of(values->second, name),
                                 shares.contains(metric)));
    table.row(cells);
  }
  return table.html();
}

std::string class_legend(const RunFacts& facts) {
  std::string out = "<div class=\"legend\">\n";
  for (std::size_t c = 0; c < facts.classes.size(); ++c)
    out +=
        fmt::format("<span><i style=\"background:{}\"></i>{}</span>\n",
                    css_color(class_color(static_cast<std::int64_t>(c + 1))), html_escaped(facts.classes[c]));
  return out + "</div>\n";
}

std::string plane_html(const CaseRecord& one, const CasePicture& picture) {
  const double scale = std::min(kMaxShownWidth / picture.width_mm, kMaxShownHeight / picture.height_mm);
  const double width = picture.width_mm * scale, height = picture.height_mm * scale;
  constexpr std::array<std::string_view, 3> kNames{"image", "truth", "prediction"};
  std::string out = "<div class=\"trio\">\n";
  for (std::size_t part = 0; part < kNames.size(); ++part) {
    const std::string caption = part == 0
                                    ? fmt::format("{}, slice {}", html_escaped(picture.plane), picture.index)
                                    : std::string(kNames[part]);
    out += fmt::format(
        "<figure style=\"width:min({:.0f}px,44vw)\"><img alt=\"{} of {}: {}\" "
        "style=\"aspect-ratio:{:.1f}/{:.1f}\" "
        "src=\"{}\"><figcaption>{}</figcaption></figure>\n",
        width, kNames[part], html_escaped(one.id), html_escaped(picture.plane), width, height,
        png_data_uri(picture.png[part]), caption);
  }
  return out + "</div>\n";
}

std::string pictures_html(const ValidationRecord& validation, const RunFacts& facts) {
  std::string out;
  std::size_t shown = 0;
  for (const CaseRecord& one : validation.cases) {
    if (one.pictures.empty()) continue;
    ++shown;
    out += fmt::format(
        "<div class=\"card\">\n<h3>{} <span class=\"soft\">mean Dice {}</span></h3>\n<div "
        "class=\"planes\">\n",
        html_escaped(one.id), number_text(one.mean_dice));
    for (const CasePicture& picture : one.pictures) out += plane_html(one, picture);
    out += "</div>\n</div>\n";
  }
  if (out.empty()) return "";
  std::string intro = "<h2>Slices</h2>\n" + class_legend(facts);
  if (shown < validation.cases.size())
    intro += fmt::format("<p class=\"soft\">{} of {} cases: the lowest and the highest mean Dice.</p>\n",
                         shown, validation.cases.size());
  return intro + "<p class=\"soft\">The planes with the most foreground; patient's right on the left.</p>\n" +
         out;
}

}  // namespace

std::string cases_section(const RunRecord& run, const RunFacts& facts) {
  if (!run.validation || run.validation->cases.empty()) return "";
  const ValidationRecord& validation = *run.validation;
  std::string out =
      fmt::format("<section>\n<h2>Validation cases at step {}</h2>\n<div class=\"card\">\n", validation.step);
  for (const std::string& metric : metrics_of(validation)) {
    const bool first = metric == "dice";
    const std::string table = score_table(validation, facts, metric);
    out += first
               ? "<h3>Dice</h3>\n" + table
               : fmt::format("<details>\n<summary>{}</summary>\n{}</details>\n", html_escaped(metric), table);
  }
  return out + "</div>\n" + pictures_html(validation, facts) + "</section>\n";
}

}  // namespace tandem

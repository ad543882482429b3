// Scores as texts.
#include "train/evaluation_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.h"
#include "core/base/files.h"
#include "train/json.h"

namespace tandem {
namespace {

using Named = std::vector<std::pair<std::string, double>>;

constexpr std::size_t kMostCaseRows = 60;

// value(c) of each class but the background.
template <class Value>
Named per_class(const SegmentationScores& scores, const Value& value) {
  Named values;
  for (std::size_t c = 1; c < scores.names().size(); ++c) values.emplace_back(scores.names()[c], value(c));
  return values;
}
template <class Value>
JsonObject object_per_class(const SegmentationScores& scores, const Value& value) {
  JsonObject object;
  for (std::size_t c = 1; c < scores.names().size(); ++c) object.add(scores.names()[c], value(c));
  return object;
}

std::vector<ClassSummary> summaries(const SegmentationScores& scores) {
  std::vector<ClassSummary> result;
  for (std::size_t c = 0; c < scores.names().size(); ++c)
    result.push_back(scores.summary(static_cast<std::int64_t>(c)));
  return result;
}

JsonObject case_json(const SegmentationScores& scores, const SegmentationScores::Case& one) {
  const auto spacing = one.spacing_mm;
  JsonObject object;
  object.add("id", one.id).add("file", one.file);
  object.add("shape", std::vector<std::int64_t>(one.shape.begin(), one.shape.end()));
  object.add("spacing_mm", Named{{"z", spacing[0]}, {"y", spacing[1]}, {"x", spacing[2]}});
  for (const MetricRow& row : chosen_metrics(scores.options().metrics))
    object.add(row.name, per_class(scores, [&](std::size_t c) { return one.scores[c].*row.value; }));
  object.add("status", object_per_class(scores, [&](std::size_t c) { return one.scores[c].status(); }));
  const auto add_count = [&](const char* key, std::int64_t OverlapCounts::*count) {
    object.add(key, object_per_class(scores, [&](std::size_t c) { return one.scores[c].counts.*count; }));
  };
  add_count("true_positive", &OverlapCounts::true_positive);
  add_count("false_positive", &OverlapCounts::false_positive);
  add_count("false_negative", &OverlapCounts::false_negative);
  return object;
}

// A field of a CSV file (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_values(const MetricValues& values, const std::vector<MetricRow>& rows) {
  std::string text;
  for (const MetricRow& row : rows) {
    const double value = values.*row.value;
    text += value == value ? fmt::format(",{}", value) : ",";
  }
  return text;
}

MetricValues means(const SegmentationScores& scores, const std::vector<MetricRow>& rows) {
  MetricValues values;
  for (const MetricRow& row : rows) values.*row.value = scores.mean(row.value);
  return values;
}

std::int64_t scored_classes(const std::vector<ClassSummary>& classes) {
  return std::count_if(classes.begin() + 1, classes.end(),
                       [](const ClassSummary& c) { return c.scored > 0; });
}

std::string cells(const MetricValues& values, const std::vector<MetricRow>& rows) {
  std::string text;
  for (const MetricRow& row : rows) {
    const double value = values.*row.value;
    const std::size_t width = std::max<std::size_t>(8, row.name.size() + (row.unit.empty() ? 1 : 4));
    if (value != value)
      text += fmt::format(" {:>{}}", "-", width);
    else
      text += fmt::format(" {:>{}.{}f}", value, width, row.unit.empty() ? 4 : 3);
  }
  return text;
}

std::string heading(const std::vector<MetricRow>& rows) {
  std::string text;
  for (const MetricRow& row : rows) {
    const std::string name =
        row.unit.empty() ? std::string(row.name) : fmt::format("{}/{}", row.name, row.unit);
    text +=
        fmt::format(" {:>{}}", name, std::max<std::size_t>(8, row.name.size() + (row.unit.empty() ? 1 : 4)));
  }
  return text;
}

std::string flags_text(const ClassSummary& one) {
  std::string text;
  const auto add = [&](std::int64_t n, const char* what) {
    if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "  " : ", ", n, what);
  };
  add(one.missed_cases, "missed");
  add(one.false_positive_cases, "false positive");
  add(one.absent, "absent");
  return text;
}

}  // namespace

std::string EvaluationInfo::title() const {
  return predictions.empty() ? fmt::format("{} (step {})", checkpoint, step)
                             : fmt::format("{} against {}", predictions, labels);
}

std::string evaluation_json(const EvaluationInfo& info, const SegmentationScores& scores) {
  const std::vector<MetricRow> rows = chosen_metrics(scores.options().metrics);
  const std::vector<ClassSummary> classes = summaries(scores);
  std::vector<std::string> names;
  for (const MetricRow& row : rows) names.emplace_back(row.name);
  JsonObject object;
  object.add("format", "tandem evaluation 1");
  if (info.predictions.empty())
    object.add("checkpoint", info.checkpoint).add("step", info.step);
  else
    object.add("predictions", info.predictions).add("labels", info.labels);
  object.add("metrics", names).add("nsd_mm", scores.options().nsd_mm);
  object.add("empty", scores.options().empty == EmptyPolicy::kWorst ? "worst" : "skip");
  for (const MetricRow& row : rows) {
    object.add(row.name, per_class(scores, [&](std::size_t c) { return classes[c].*row.value; }));
    object.add("mean_" + std::string(row.name), scores.mean(row.value));
  }
  const auto add_count = [&](const char* key, std::int64_t ClassSummary::*count) {
    object.add(key, object_per_class(scores, [&](std::size_t c) { return classes[c].*count; }));
  };
  add_count("n", &ClassSummary::scored);
  add_count("absent", &ClassSummary::absent);
  add_count("false_positive_cases", &ClassSummary::false_positive_cases);
  add_count("missed_cases", &ClassSummary::missed_cases);
  std::vector<JsonObject> cases;
  for (const SegmentationScores::Case& one : scores.cases()) cases.push_back(case_json(scores, one));
  object.add("cases", cases).add("seconds", info.seconds);
  if (info.predictions.empty()) object.add("loss_scale_history", info.loss_scale_history);
  return object.text();
}

std::string evaluation_csv(const SegmentationScores& scores) {
  const std::vector<MetricRow> rows = chosen_metrics(scores.options().metrics);
  const std::vector<ClassSummary> classes = summaries(scores);
  std::string text = "kind,case,class,status,n";
  for (const MetricRow& row : rows) text += fmt::format(",{}", row.name);
  text += ",true_positive,false_positive,false_negative\n";
  for (const SegmentationScores::Case& one : scores.cases())
    for (std::size_t c = 1; c < classes.size(); ++c) {
      const ClassScore& score = one.scores[c];
      text +=
          fmt::format("case,{},{},{},{}{},{},{},{}\n", csv_field(one.id), csv_field(scores.names()[c]),
                      score.status(), score.scored() ? 1 : 0, csv_values(score, rows),
                      score.counts.true_positive, score.counts.false_positive, score.counts.false_negative);
    }
  for (std::size_t c = 1; c < classes.size(); ++c)
    text += fmt::format("class,,{},,{}{},,,\n", csv_field(scores.names()[c]), classes[c].scored,
                        csv_values(classes[c], rows));
  return text +
         fmt::format("mean,,,,{}{},,,\n", scored_classes(classes), csv_values(means(scores, rows), rows));
}

std::string evaluation_table(const SegmentationScores& scores) {
  const std::vector<MetricRow> rows = chosen_metrics(scores.options().metrics);
  const std::vector<ClassSummary> classes = summaries(scores);
  std::size_t width = 16;
  for (const std::string& name : scores.names()) width = std::max(width, name.size());
  std::string text = fmt::format("{:<{}}{} {:>5}\n", "class", width, heading(rows), "n");
  for (std::size_t c = 1; c < classes.size(); ++c)
    text += fmt::format("{:<{}}{} {:>5}{}\n", scores.names()[c], width, cells(classes[c], rows),
                        classes[c].scored, flags_text(classes[c]));
  text += fmt::format("{:<{}}{}  of {}\n", "mean", width, cells(means(scores, rows), rows),
                      counted(scored_classes(classes), "class", "classes"));
  const std::size_t case_rows = scores.cases().size() * (classes.size() - 1);
  if (scores.cases().size() < 2 || case_rows > kMostCaseRows) return text;
  for (const SegmentationScores::Case& one : scores.cases()) {
    text += fmt::format("\n{}\n", one.id);
    for (std::size_t c = 1; c < classes.size(); ++c)
      text +=
          fmt::format("{:<{}}{}{}\n", scores.names()[c], width, cells(one.scores[c], rows),
                      one.scores[c].status() == "scored" ? "" : fmt::format("  {}", one.scores[c].status()));
  }
  return text;
}

void write_evaluation(const std::filesystem::path& name, const EvaluationInfo& info,
                      const SegmentationScores& scores) {
  std::filesystem::path json = name, csv = name;
  write_file_atomically(json += ".json", evaluation_json(info, scores) + "\n");
  write_file_atomically(csv += ".csv", evaluation_csv(scores));
}

}  // namespace tandem

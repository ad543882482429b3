// Points, record and table of a sweep.
#include "train/sweep.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "core/base/error.h"
#include "core/config/numbers.h"
#include "core/config/tree.h"
#include "train/json.h"
#include "train/metrics_log.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxPoints = 10000;
constexpr int kStopped = 75;

std::string key_of(const std::string& override_text) {
  return override_text.substr(0, override_text.find('='));
}
std::string value_of(const std::string& override_text) {
  return override_text.substr(override_text.find('=') + 1);
}

bool is_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  return equals != std::string::npos && equals > 0;
}

Overrides parse_grid(const std::string& grid) {
  const ConfigNode list =
      is_override(grid) ? parse_yaml_text(value_of(grid), "--grid " + grid) : ConfigNode();
  if (!list.is_list() || list.items().empty())
    throw Error(ErrorKind::kUsage,
                fmt::format("[sweep] --grid: got '{}', expected KEY=[VALUE, VALUE, ...]", grid),
                "For example: --grid 'optimizer.lr=[1e-3, 1e-2]'.");
  Overrides values;
  for (const ConfigNode& item : list.items())
    values.push_back(fmt::format("{}={}", key_of(grid), to_flow_yaml(item)));
  return values;
}

Overrides parse_run(const std::string& run) {
  Overrides overrides;
  std::istringstream words(run);
  for (std::string word; words >> word;) {
    if (!is_override(word))
      fail(ErrorKind::kUsage, "[sweep] --run: got '{}' in '{}', expected KEY=VALUE KEY=VALUE ...", word, run);
    overrides.push_back(word);
  }
  return overrides;
}

void expect_keys_once(const Overrides& point) {
  std::set<std::string> keys;
  for (const std::string& text : point)
    if (!keys.insert(key_of(text)).second)
      fail(ErrorKind::kUsage, "[sweep] got key '{}' twice in one run, expected each once", key_of(text));
}

std::string joined(const Overrides& overrides) { return fmt::format("{}", fmt::join(overrides, " ")); }

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted(1, '"');
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted.append(1, '"');
}

std::string number_text(const std::optional<double>& value) { return value ? format_number(*value) : ""; }

std::string_view status_of(const SweepResult& result) {
  return result.done() ? "done" : result.exit_code == kStopped ? "stopped" : "failed";
}

using RecordMembers = std::map<std::string, std::string>;

std::string member(const RecordMembers& members, const std::string& key) {
  const auto it = members.find(key);
  return it == members.end() ? "" : it->second;
}

// Calls take(members) for every line that is an object.
template <class Take>
void for_each_line(const fs::path& path, Take&& take) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (const auto members = parse_json_object(line)) take(*members);
}

// Whether the last line has no end.
bool ends_torn(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() == std::ifstream::pos_type(0)) return false;
  file.seekg(-1, std::ios::end);
  return file.get() != '\n';
}

}  // namespace

std::vector<Overrides> sweep_points(const std::vector<std::string>& grids,
                                    const std::vector<std::string>& runs) {
  std::vector<Overrides> points;
  if (!grids.empty()) points.emplace_back();
  for (const std::string& grid : grids) {
    const Overrides values = parse_grid(grid);
    if (points.size() * values.size() > kMaxPoints)
      fail(ErrorKind::kUsage, "[sweep] got more than {} runs, expected fewer", kMaxPoints);
    std::vector<Overrides> longer;
    for (const Overrides& point : points)
      for (const std::string& value : values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    points = std::move(longer);
  }
  for (const std::string& run : runs) points.push_back(parse_run(run));
  if (points.empty())
    throw Error(ErrorKind::kUsage, "[sweep] got neither --grid nor --run, expected at least one",
                "For example: --grid 'optimizer.lr=[1e-3, 1e-2]'.");
  for (const Overrides& point : points) expect_keys_once(point);
  return points;
}

void read_scores(const fs::path& folder, SweepResult& result) {
  const MetricsHistory history = read_metrics(folder / "metrics.jsonl");
  for (const MetricsHistory::Step& step : history.steps) {
    result.step = step.step;
    result.loss = step.loss;
  }
  for (const ValidationMetrics& validation : history.validations) {
    result.step = std::max(result.step, validation.step);
    const double dice = validation.mean_dice;
    result.dice = std::isfinite(dice) ? std::optional(dice) : std::nullopt;
    if (result.dice && (!result.best_dice || dice > *result.best_dice)) result.best_dice = dice;
  }
}

SweepRecord::SweepRecord(const fs::path& folder, const std::string& job, const Overrides& base,
                         const std::string& resolved)
    : path_(folder / "sweep.jsonl") {
  const std::string digest = fmt::format("{:016x}", XXH3_64bits(resolved.data(), resolved.size()));
  std::error_code error;
  fs::create_directories(folder, error);
  bool found = false;
  for_each_line(path_, [&](const RecordMembers& members) {
    if (member(members, "kind") == "sweep") {
      found = true;
      if (member(members, "job") != job || member(members, "overrides") != joined(base))
        throw Error(ErrorKind::kUsage,
                    fmt::format("[sweep] {}: got a sweep of {} {}, expected {} {}", folder.string(),
                                member(members, "job"), member(members, "overrides"), job, joined(base)),
                    "Choose another --sweep-dir.");
      if (member(members, "digest") != digest)
        throw Error(
            ErrorKind::kUsage,
            fmt::format("[sweep] {}: {}: got a job that has changed, expected the one of the first run",
                        folder.string(), job),
            "Choose another --sweep-dir, or take the change back.");
    } else {
      SweepResult result{.run = member(members, "run"), .overrides = {member(members, "overrides")}};
      result.exit_code = static_cast<int>(read_integer(member(members, "exit_code")).value.value_or(1));
      result.seconds = read_number(member(members, "seconds")).value.value_or(0);
      results_.push_back(std::move(result));
    }
  });
  const bool torn = ends_torn(path_);
  file_ = std::make_unique<AppendFile>(path_);
  if (torn) write("");  // a process that died while it wrote: the rest of its line is no record
  if (!found)
    write(JsonObject()
              .add("kind", "sweep")
              .add("job", job)
              .add("overrides", joined(base))
              .add("digest", digest)
              .text());
}

std::optional<SweepResult> SweepRecord::find(const std::string& run, const Overrides& overrides) const {
  const auto last = std::find_if(results_.rbegin(), results_.rend(),
                                 [&](const SweepResult& result) { return result.run == run; });
  if (last == results_.rend()) return std::nullopt;
  if (joined(last->overrides) != joined(overrides))
    throw Error(ErrorKind::kUsage,
                fmt::format("[sweep] {}: run {}: got '{}', expected '{}' as it was run before",
                            path_.string(), run, joined(overrides), joined(last->overrides)),
                "Add grids and runs at the end only, or choose another --sweep-dir.");
  SweepResult result = *last;
  result.overrides = overrides;
  return result;
}

void SweepRecord::add(const SweepResult& result) {
  write(JsonObject()
            .add("kind", "run")
            .add("run", result.run)
            .add("overrides", joined(result.overrides))
            .add("exit_code", result.exit_code)
            .add("seconds", result.seconds)
            .text());
  results_.push_back(result);
}

void SweepRecord::write(const std::string& line) {
  file_->append(line + "\n");
  file_->sync();
}

std::string sweep_csv(const std::vector<SweepResult>& results) {
  std::vector<std::string> keys;
  for (const SweepResult& result : results)
    for (const std::string& text : result.overrides)
      if (std::find(keys.begin(), keys.end(), key_of(text)) == keys.end()) keys.push_back(key_of(text));
  std::string csv = "run,status,exit_code,step,loss,dice,best_dice,seconds";
  for (const std::string& key : keys) csv.append(",").append(csv_field(key));
  csv += "\r\n";
  for (const SweepResult& result : results) {
    csv += fmt::format("{},{},{},{},{},{},{},{:.1f}", result.run, status_of(result), result.exit_code,
                       result.step, number_text(result.loss), number_text(result.dice),
                       number_text(result.best_dice), result.seconds);
    for (const std::string& key : keys) {
      const auto it = std::find_if(result.overrides.begin(), result.overrides.end(),
                                   [&](const std::string& text) { return key_of(text) == key; });
      csv.append(",").append(it == result.overrides.end() ? "" : csv_field(value_of(*it)));
    }
    csv += "\r\n";
  }
  return csv;
}

std::string sweep_table(std::vector<SweepResult> results) {
  static constexpr double kWorst = std::numeric_limits<double>::infinity();
  const auto rank = [](const SweepResult& result) {
    return std::tuple(!result.done(), result.best_dice ? -*result.best_dice : kWorst,
                      result.loss.value_or(kWorst));
  };
  std::stable_sort(results.begin(), results.end(),
                   [&](const SweepResult& a, const SweepResult& b) { return rank(a) < rank(b); });
  std::string table = fmt::format("{:<5} {:<8} {:>8} {:>9} {:>9} {:>9}  {}\n", "run", "status", "step",
                                  "loss", "dice", "best", "overrides");
  const auto shown = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4f}", *value) : "-";
  };
  for (const SweepResult& result : results)
    table += fmt::format("{:<5} {:<8} {:>8} {:>9} {:>9} {:>9}  {}\n", result.run, status_of(result),
                         result.step, shown(result.loss), shown(result.dice), shown(result.best_dice),
                         joined(result.overrides));
  return table;
}

}  // namespace tandem

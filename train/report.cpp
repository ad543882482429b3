// Reading a run folder, and the page around the sections.
#include "train/report.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/folders.h"
#include "train/html.h"
#include "train/json.h"
#include "train/report_sections.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxTextBytes = 1 << 20;

// The text of a file that may be missing.
std::string optional_text(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) ? read_text_file(path, kMaxTextBytes) : "";
}

std::optional<JobOptions> job_of(const std::string& yaml) {
  try {
    JobOptions job;
    parse_options(parse_yaml_text(yaml, "config.resolved.yaml"), fields(job));
    return job;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::int64_t RunRecord::last_step() const {
  std::int64_t step = 0;
  if (!metrics.steps.empty()) step = metrics.steps.back().step;
  if (!metrics.validations.empty()) step = std::max(step, metrics.validations.back().step);
  if (!metrics.usage.empty()) step = std::max(step, metrics.usage.back().step);
  return step;
}

RunRecord read_run(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / "config.resolved.yaml", error) && !fs::exists(folder / "metrics.jsonl", error))
    throw Error(ErrorKind::kUsage, fmt::format("[report] {}: got no run folder", folder.string()),
                "Give a folder that `tandem train` made: it holds config.resolved.yaml and metrics.jsonl.");
  const fs::path plain = fs::absolute(folder).lexically_normal();
  RunRecord run;
  run.name = (plain.has_filename() ? plain : plain.parent_path()).filename().string();
  run.config_yaml = optional_text(folder / "config.resolved.yaml");
  if (!run.config_yaml.empty()) run.job = job_of(run.config_yaml);
  if (const auto environment = parse_json_object(optional_text(folder / "environment.json")))
    run.environment = *environment;
  run.metrics = read_metrics(folder / "metrics.jsonl");
  run.validation = read_validation(folder);
  return run;
}

std::string report_html(const RunRecord& run) {
  const RunFacts facts = facts_of(run);
  std::string page = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  page += fmt::format("<title>{} – run report</title>\n", html_escaped(run.name));
  page += fmt::format("<style>\n{}</style>\n</head>\n<body>\n<main>\n", kReportStyle);
  page += head_section(run, facts);
  page += curves_section(run, facts);
  page += cases_section(run, facts);
  page += precision_section(run, facts);
  page += cost_section(facts);
  page += job_section(run);
  const auto version = run.environment.find("version");
  page += fmt::format("<footer>Made by tandem {} from the run folder{}.{}</footer>\n", TANDEM_VERSION,
                      version != run.environment.end() && version->second != TANDEM_VERSION
                          ? " of a run of tandem " + html_escaped(version->second)
                          : "",
                      run.metrics.unreadable_lines > 0
                          ? fmt::format(" {} lines of metrics.jsonl could not be read (the first: line {}).",
                                        run.metrics.unreadable_lines, run.metrics.first_unreadable_line)
                          : "");
  return page + "</main>\n</body>\n</html>\n";
}

fs::path write_report(const fs::path& folder, const fs::path& output) {
  const fs::path path = output.empty() ? folder / "report.html" : output;
  const std::string page = report_html(read_run(folder));
  make_parent_folder("report", path);
  write_file_atomically(path, page);
  return path;
}

}  // namespace tandem

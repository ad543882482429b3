// `tandem data check`: every fault of every file of a job, or of files.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "apps/commands.h"
#include "core/base/counted.h"
#include "core/base/error.h"
#include "data/case_list.h"
#include "data/check.h"
#include "train/job.h"
#include "train/json.h"

namespace tandem {
namespace {

struct Flags {
  std::vector<std::string> words;
  bool json = false, strict = false;
};

bool is_job_name(const std::string& name) { return name.ends_with(".yaml") || name.ends_with(".yml"); }

// JOB [key=value ...], or files.
CheckReport check(const std::vector<std::string>& words) {
  if (words.empty())
    throw Error(ErrorKind::kUsage, "[check] got no job and no files", "Example: tandem data check job.yaml.");
  if (!is_job_name(words.front())) return check_files(words);
  const JobOptions job = load_job(words.front(), {words.begin() + 1, words.end()});
  return check_data(job.data, job.augment);
}

std::string_view name(Severity severity) { return severity == Severity::kError ? "error" : "warning"; }

void print_json(const CheckReport& report) {
  std::vector<JsonObject> findings;
  for (const Finding& finding : report.findings)
    findings.push_back(JsonObject()
                           .add("severity", name(finding.severity))
                           .add("file", finding.file)
                           .add("text", finding.text));
  fmt::print("{}\n", JsonObject()
                         .add("cases", report.cases)
                         .add("errors", report.errors())
                         .add("unlabelled", report.unlabelled)
                         .add("findings", findings)
                         .text());
}

void print_list(const CheckReport& report) {
  for (const Finding& finding : report.findings) {
    // Errors of readers name the file themselves.
    const bool named = finding.file.empty() || finding.text.find(finding.file) != std::string::npos;
    fmt::print("{}: {}{}\n", name(finding.severity), named ? "" : finding.file + ": ", finding.text);
  }
  const auto warnings = static_cast<std::int64_t>(report.findings.size()) - report.errors();
  fmt::print("{}, {}, {}\n", counted(report.cases, "case"), counted(report.errors(), "error"),
             counted(warnings, "warning"));
  if (report.unlabelled > 0)
    fmt::print("{} without labels, such as {}: enough to predict, not to train. {}\n",
               counted(report.unlabelled, "case"), report.first_unlabelled,
               how_to_label(report.first_unlabelled));
}

int run_check(const Flags& flags) {
  const CheckReport report = check(flags.words);
  flags.json ? print_json(report) : print_list(report);
  const bool bad = flags.strict ? !report.findings.empty() : report.errors() > 0;
  return bad ? exit_code(ErrorKind::kData) : 0;
}

}  // namespace

Action data_check_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments
      .positionals("JOB|FILES", flags->words,
                   "A job (.yaml) with overrides as key=value, or case files, NIfTI images, folders, globs",
                   1)
      .flag("--strict", flags->strict, "Exit 3 for warnings too")
      .flag("--json", flags->json, "Print one JSON object");
  return [flags] { return run_check(*flags); };
}

}  // namespace tandem

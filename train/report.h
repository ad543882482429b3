// report.html: a run on one page, made from its run folder alone; no script, no resource outside the file.
// What the charts and pictures look like is svg_chart and case_pictures.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "train/job.h"
#include "train/metrics_log.h"
#include "train/validation_folder.h"

namespace tandem {

// What a run folder says about its run. Everything but the folder itself may be missing.
struct RunRecord {
  std::string name;                                // of the folder
  std::string config_yaml;                         // config.resolved.yaml
  std::optional<JobOptions> job;                   // nothing: this version cannot read it
  std::map<std::string, std::string> environment;  // environment.json
  MetricsHistory metrics;
  std::optional<ValidationRecord> validation;

  std::int64_t last_step() const;  // the largest of metrics.jsonl
};

// Error{kUsage} unless `folder` is a run folder (it has config.resolved.yaml or metrics.jsonl);
// Error{kResource}.
RunRecord read_run(const std::filesystem::path& folder);

// The page (UTF-8).
std::string report_html(const RunRecord& run);

// Writes report.html of the run folder, or `output`, whole or not at all; returns its path.
std::filesystem::path write_report(const std::filesystem::path& folder,
                                   const std::filesystem::path& output = {});

}  // namespace tandem

// The sections of report.html, each a piece of HTML. The page around them is report.cpp.
#pragma once

#include <string>
#include <vector>

#include "train/report.h"

namespace tandem {

// Numbers that several sections show.
struct RunFacts {
  std::int64_t steps = 0, total_steps = 0;  // attempted; of the job (0: unknown)
  std::int64_t skipped = 0;
  double median_step_ms = 0;  // 0: unknown
  NamedNumbers seconds;       // by phase, summed over the usage lines
  NamedNumbers peak_bytes;    // by category, the largest of all usage lines
  double total_peak_bytes = 0;
  double data_wait_share = 0;        // of the time in steps
  std::vector<std::string> classes;  // foreground, in the job's order
};
RunFacts facts_of(const RunRecord& run);

std::string head_section(const RunRecord& run, const RunFacts& facts);
// Loss, Dice, lr, loss scale with skips, gradient norm, step time.
std::string curves_section(const RunRecord& run, const RunFacts& facts);
// What was computed in what, what the loss scale did, which steps were skipped and why.
std::string precision_section(const RunRecord& run, const RunFacts& facts);
// Time by phase, memory by category.
std::string cost_section(const RunFacts& facts);
// Scores per case, and pictures.
std::string cases_section(const RunRecord& run, const RunFacts& facts);
// The job and where it ran.
std::string job_section(const RunRecord& run);

extern const char* const kReportStyle;  // the style sheet

}  // namespace tandem

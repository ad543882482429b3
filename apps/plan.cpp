// `tandem plan`: a job file for a data set, by the rules of nnU-Net.
#include "train/plan.h"

#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "apps/commands.h"
#include "apps/new_job.h"
#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/config/numbers.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::vector<std::string> data;
  std::string output = "plan.yaml", memory = "8GiB", name;
  bool overwrite = false;
};

double gigabytes(const std::string& text) {
  const auto bytes = read_bytes(text).value;
  if (!bytes || *bytes < (WideInteger{1} << 28) || *bytes > (WideInteger{1} << 50))
    fail(ErrorKind::kUsage, "[plan] --memory: got '{}', expected bytes from 256MiB on, as 8GiB", text);
  return static_cast<double>(*bytes) / static_cast<double>(1 << 30);
}

int plan(const Flags& flags) {
  const fs::path output(flags.output);
  if (!flags.overwrite) expect_new_file("plan", "--output", output);
  const double memory_gb = gigabytes(flags.memory);
  nnunet_folder("plan", flags.data);  // not its file
  const PlanSurvey survey = survey_for_plan(flags.data);
  const JobPlan decided = plan_job(survey, memory_gb);
  const fs::path folder = fs::absolute(output).parent_path();
  std::vector<std::string> paths;
  for (const std::string& path : flags.data) paths.push_back(path_from(folder, path));
  const std::string text =
      plan_text(survey, decided, flags.name.empty() ? output.stem().string() : flags.name, paths, memory_gb);
  write_new_job(output, text);
  const Index3& patch = decided.network.topology.patch;
  fmt::print("{}: {}, {}; spacing {:.4g} {:.4g} {:.4g} mm, patch {}, batch {}, {}\n", flags.output,
             counted(survey.cases.size(), "case"), counted(survey.data.outputs(), "output"),
             decided.spacing_mm[0], decided.spacing_mm[1], decided.spacing_mm[2], to_string(patch),
             decided.network.batch, counted(decided.network.topology.strides.size(), "stage"));
  return 0;
}

}  // namespace

Action plan_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positionals("DATA", flags->data, "An nnU-Net raw data folder, or case files, folders or globs", 1)
      .option("--output", "FILE", flags->output, "Job file to write")
      .option("--memory", "BYTES", flags->memory, "Memory that training may take")
      .option("--name", "NAME", flags->name, "Name of the job; default: that of the file")
      .flag("--overwrite", flags->overwrite, "Replace an existing file");
  return [flags] { return plan(*flags); };
}

}  // namespace tandem

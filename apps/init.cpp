// `tandem init`: writes a job file for a folder of cases.
#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "apps/commands.h"
#include "apps/new_job.h"
#include "core/base/files.h"
#include "train/job_template.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kCasesRead = 20;

struct Flags {
  std::vector<std::string> data;
  std::string output = "job.yaml", name;
  bool overwrite = false;
};

int init(const Flags& flags) {
  const fs::path output(flags.output);
  if (!flags.overwrite) expect_new_file("init", "--output", output);
  const std::optional<fs::path> described = nnunet_folder("init", flags.data);
  const fs::path folder = fs::absolute(output).parent_path();
  CasesSurvey survey = survey_cases(list_cases(flags.data), kCasesRead);
  for (CaseInfo& info : survey.cases) info.file = path_from(folder, info.file);
  const std::string text =
      job_template(survey, {.name = flags.name.empty() ? output.stem().string() : flags.name});
  const JobOptions job = write_new_job(output, text);
  fmt::print(
      "{}: {} training and {} validation cases, {} classes. Name them, then: tandem train {} --overfit 2\n",
      flags.output, job.data.train.size(), job.data.validation.size(), job.data.classes(), flags.output);
  if (described)
    fmt::print("{} names classes and channels: `tandem plan {}` takes them from there\n",
               (*described / "dataset.json").string(), described->string());
  return 0;
}

}  // namespace

Action init_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positionals("DATA", flags->data, "Case files, folders of them, or globs", 1)
      .option("--output", "FILE", flags->output, "Job file to write")
      .option("--name", "NAME", flags->name, "Name of the job; default: that of the file")
      .flag("--overwrite", flags->overwrite, "Replace an existing file");
  return [flags] { return init(*flags); };
}

}  // namespace tandem

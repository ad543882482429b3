// `tandem init`: writes a job file for a folder of cases.
#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "apps/commands.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "train/job.h"
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
  if (!flags.overwrite && fs::exists(output))
    throw Error(ErrorKind::kUsage,
                fmt::format("[init] --output: got {}, which exists, expected a new file", flags.output),
                "Choose another name, or pass --overwrite.");
  const fs::path folder = fs::absolute(output).parent_path();
  CasesSurvey survey = survey_cases(list_cases(flags.data), kCasesRead);
  // Paths in a job file are relative to it, so that both can be moved together.
  for (CaseInfo& info : survey.cases) {
    const fs::path relative =
        fs::absolute(info.file).lexically_normal().lexically_relative(folder.lexically_normal());
    info.file = relative.empty() || *relative.begin() == ".."
                    ? fs::absolute(info.file).lexically_normal().string()
                    : relative.string();
  }
  const std::string text =
      job_template(survey, {.name = flags.name.empty() ? output.stem().string() : flags.name});
  JobOptions job;  // what is written is a job, or nothing is written
  parse_options(parse_yaml_text(text, flags.output), fields(job));
  write_file_atomically(output, text);
  fmt::print(
      "{}: {} training and {} validation cases, {} classes. Name them, then: tandem train {} --overfit 2\n",
      flags.output, job.data.train.size(), job.data.validation.size(), job.data.classes(), flags.output);
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

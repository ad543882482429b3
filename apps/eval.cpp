// `tandem eval`: scores a checkpoint on whole volumes.
#include <fmt/core.h>

#include <chrono>
#include <memory>

#include "apps/commands.h"
#include "core/base/error.h"
#include "data/voxel_source.h"
#include "train/evaluate.h"
#include "train/evaluation_report.h"
#include "train/run.h"
#include "train/session.h"

namespace tandem {
namespace {

struct Flags {
  std::string run;
  std::vector<std::string> overrides, inputs;
  std::optional<std::string> output;
  bool json = false;
};

int evaluate(const Flags& flags) {
  const SavedRun run = open_run(flags.run, flags.overrides);
  const std::vector<CaseEntry> cases =
      flags.inputs.empty() ? validation_cases(run.job.data) : list_cases(flags.inputs);
  if (cases.empty())
    throw Error(ErrorKind::kUsage, "[eval] no cases: data.validation of the run is empty",
                "Name some with --input FILE.");
  const EvaluationModel loaded = load_model(run, read_case_info(cases.front(), run.job.data.orientation));
  const auto start = std::chrono::steady_clock::now();
  const SegmentationScores scores = evaluate_cases(
      run.job.data, cases, window_options(run.job.validate, run.job.patch, run.job.augment),
      metric_options(run.job.validate), patch_model(loaded.session.context, *loaded.session.model));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const EvaluationInfo info{.checkpoint = run.checkpoint_path.filename().string(),
                            .step = run.content.step,
                            .seconds = seconds.count(),
                            .loss_scale_history = loss_scale_history(run.folder)};
  const std::filesystem::path name = flags.output ? *flags.output : (run.folder / "evaluation").string();
  if (flags.json)
    fmt::print("{}\n", evaluation_json(info, scores));
  else
    fmt::print("{} (step {}), {} case{}\n{}", run.checkpoint_path.string(), info.step, scores.cases().size(),
               scores.cases().size() == 1 ? "" : "s", evaluation_table(scores));
  write_evaluation(name, info, scores);
  if (!flags.json) fmt::print("written to {}.json and .csv\n", name.string());
  return 0;
}

}  // namespace

Action eval_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("RUN", flags->run, "Run folder (its newest checkpoint) or checkpoint file")
      .overrides(flags->overrides)
      .option("--input", "FILE", flags->inputs, "A case with labels; default: data.validation of the run")
      .option("--output", "NAME", flags->output,
              "Write NAME.json and NAME.csv; default: evaluation in the run folder")
      .flag("--json", flags->json, "Print JSON");
  return [flags] { return evaluate(*flags); };
}

}  // namespace tandem

// `tandem eval`: scores a checkpoint on whole volumes.
#include <fmt/core.h>

#include <cmath>
#include <memory>

#include "apps/commands.h"
#include "core/base/error.h"
#include "data/voxel_source.h"
#include "train/evaluate.h"
#include "train/json.h"
#include "train/run.h"
#include "train/session.h"

namespace tandem {
namespace {

struct Flags {
  std::string run;
  std::vector<std::string> overrides, inputs;
  bool json = false;
};

std::vector<std::pair<std::string, double>> named(const std::vector<std::string>& names,
                                                  const std::vector<double>& values) {
  std::vector<std::pair<std::string, double>> pairs;
  for (std::size_t i = 0; i < names.size(); ++i) pairs.emplace_back(names[i], values[i]);
  return pairs;
}

std::string score_text(double value) { return std::isnan(value) ? "absent" : fmt::format("{:.4f}", value); }

void print_json(const SavedRun& run, const EvaluationResult& result) {
  std::vector<JsonObject> cases;
  for (const CaseScores& scores : result.cases)
    cases.push_back(JsonObject()
                        .add("id", scores.id)
                        .add("file", scores.file)
                        .add("dice", named(result.classes, scores.dice))
                        .add("iou", named(result.classes, scores.iou)));
  const std::string text = JsonObject()
                               .add("checkpoint", run.checkpoint_path.filename().string())
                               .add("step", run.content.step)
                               .add("dice", named(result.classes, result.dice))
                               .add("mean_dice", result.mean_dice)
                               .add("iou", named(result.classes, result.iou))
                               .add("mean_iou", result.mean_iou)
                               .add("cases", cases)
                               .add("seconds", result.seconds)
                               .add("loss_scale_history", loss_scale_history(run.folder))
                               .text();
  fmt::print("{}\n", text);
}

void print_table(const SavedRun& run, const EvaluationResult& result) {
  fmt::print("{} (step {}), {} case{}\n{:<24} {:>8} {:>8}\n", run.checkpoint_path.string(), run.content.step,
             result.cases.size(), result.cases.size() == 1 ? "" : "s", "class", "Dice", "IoU");
  for (std::size_t c = 0; c < result.classes.size(); ++c)
    fmt::print("{:<24} {:>8} {:>8}\n", result.classes[c], score_text(result.dice[c]),
               score_text(result.iou[c]));
  fmt::print("{:<24} {:>8} {:>8}\n", "mean", score_text(result.mean_dice), score_text(result.mean_iou));
}

int evaluate(const Flags& flags) {
  const SavedRun run = open_run(flags.run, flags.overrides);
  const std::vector<std::string>& patterns = flags.inputs.empty() ? run.job.data.validation : flags.inputs;
  if (patterns.empty())
    throw Error(ErrorKind::kUsage, "[eval] no cases: data.validation of the run is empty",
                "Name some with --input FILE.");
  const std::vector<std::string> files = expand_case_files(patterns);
  const EvaluationModel loaded = load_model(run, open_voxel_source(files.front())->info().channels);
  const Predictor predictor{loaded.session.context, loaded.session.model.get(), &run.job, {}};
  const EvaluationResult result = evaluate_cases(predictor, window_choice(run.job.validate), files);
  flags.json ? print_json(run, result) : print_table(run, result);
  return 0;
}

}  // namespace

Action eval_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("RUN", flags->run, "Run folder (its newest checkpoint) or checkpoint file")
      .overrides(flags->overrides)
      .option("--input", "FILE", flags->inputs, "A case with labels; default: data.validation of the run")
      .flag("--json", flags->json, "Print JSON");
  return [flags] { return evaluate(*flags); };
}

}  // namespace tandem

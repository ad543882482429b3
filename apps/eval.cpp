// `tandem eval`: scores a checkpoint on whole volumes.
#include <fmt/core.h>

#include <chrono>
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

using Named = std::vector<std::pair<std::string, double>>;

// One value per foreground class.
template <class Value>
Named per_class(const SegmentationScores& scores, const Value& value) {
  Named values;
  for (std::size_t c = 1; c < scores.names().size(); ++c) values.emplace_back(scores.names()[c], value(c));
  return values;
}

JsonObject case_json(const SegmentationScores& scores, const SegmentationScores::Case& one) {
  return JsonObject()
      .add("id", one.id)
      .add("dice", per_class(scores, [&](std::size_t c) { return one.scores[c].dice; }))
      .add("iou", per_class(scores, [&](std::size_t c) { return one.scores[c].iou; }));
}

void print_json(const SavedRun& run, const SegmentationScores& scores, double seconds) {
  std::vector<JsonObject> cases;
  for (const SegmentationScores::Case& one : scores.cases()) cases.push_back(case_json(scores, one));
  const auto summary = [&](std::size_t c) { return scores.summary(static_cast<std::int64_t>(c)); };
  const std::string text = JsonObject()
                               .add("checkpoint", run.checkpoint_path.filename().string())
                               .add("step", run.content.step)
                               .add("dice", per_class(scores, [&](std::size_t c) { return summary(c).dice; }))
                               .add("mean_dice", scores.mean_dice())
                               .add("iou", per_class(scores, [&](std::size_t c) { return summary(c).iou; }))
                               .add("mean_iou", scores.mean_iou())
                               .add("cases", cases)
                               .add("seconds", seconds)
                               .add("loss_scale_history", loss_scale_history(run.folder))
                               .text();
  fmt::print("{}\n", text);
}

std::string score_text(double value) { return std::isnan(value) ? "absent" : fmt::format("{:.4f}", value); }

void print_table(const SavedRun& run, const SegmentationScores& scores) {
  fmt::print("{} (step {}), {} case{}\n{:<24} {:>8} {:>8} {:>5}\n", run.checkpoint_path.string(),
             run.content.step, scores.cases().size(), scores.cases().size() == 1 ? "" : "s", "class", "Dice",
             "IoU", "n");
  for (std::size_t c = 1; c < scores.names().size(); ++c) {
    const ClassSummary summary = scores.summary(static_cast<std::int64_t>(c));
    fmt::print("{:<24} {:>8} {:>8} {:>5}\n", scores.names()[c], score_text(summary.dice),
               score_text(summary.iou), summary.scored);
  }
  fmt::print("{:<24} {:>8} {:>8}\n", "mean", score_text(scores.mean_dice()), score_text(scores.mean_iou()));
}

int evaluate(const Flags& flags) {
  const SavedRun run = open_run(flags.run, flags.overrides);
  const std::vector<std::string>& patterns = flags.inputs.empty() ? run.job.data.validation : flags.inputs;
  if (patterns.empty())
    throw Error(ErrorKind::kUsage, "[eval] no cases: data.validation of the run is empty",
                "Name some with --input FILE.");
  const std::vector<std::string> files = expand_case_files(patterns);
  const EvaluationModel loaded = load_model(run, open_voxel_source(files.front())->info());
  const auto start = std::chrono::steady_clock::now();
  const SegmentationScores scores =
      evaluate_cases(run.job.data, files, window_options(run.job.validate, run.job.patch, run.job.augment),
                     run.job.validate.empty, patch_model(loaded.session.context, *loaded.session.model));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  flags.json ? print_json(run, scores, seconds.count()) : print_table(run, scores);
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

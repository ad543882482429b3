// `tandem eval`: scores a checkpoint on whole volumes, or a folder of predictions without any model.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>

#include "apps/commands.h"
#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/folders.h"
#include "core/base/log.h"
#include "data/label_file.h"
#include "data/split.h"
#include "train/evaluate.h"
#include "train/evaluation_report.h"
#include "train/postprocess_file.h"
#include "train/run.h"
#include "train/session.h"
#include "train/signals.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string run;
  std::vector<std::string> overrides, inputs;
  std::optional<std::string> output, predictions, labels;
  bool json = false, learn = false;
};

// Where the scores go; its folder is made before they are computed.
fs::path output_of(const Flags& flags, const fs::path& default_name) {
  if (!flags.output) return default_name;
  if (fs::path(*flags.output).filename().empty())
    throw Error(ErrorKind::kUsage,
                fmt::format("[eval] --output: got '{}', expected the name of two files", *flags.output),
                "NAME writes NAME.json and NAME.csv.");
  make_parent_folder("eval", *flags.output);
  return *flags.output;
}

// Other cases than the run's own validation leave its evaluation alone.
std::string other_name(const Flags& flags, const std::vector<CaseEntry>& cases) {
  const auto chooses_cases = [](const std::string& override) {
    return override.starts_with("data.validation") || override.starts_with("data.train") ||
           override.starts_with("data.split");
  };
  if (flags.inputs.empty() && std::ranges::none_of(flags.overrides, chooses_cases)) return "evaluation";
  if (cases.size() == 1) return "evaluation-" + cases.front().id;
  return fmt::format("evaluation-{}-and-{}-more", cases.front().id, cases.size() - 1);
}

void report(const Flags& flags, const EvaluationInfo& info, const SegmentationScores& scores,
            const fs::path& name) {
  if (flags.json)
    fmt::print("{}\n", evaluation_json(info, scores));
  else
    fmt::print("{}, {}\n{}", info.title(), counted(scores.cases().size(), "case"), evaluation_table(scores));
  write_evaluation(name, info, scores);
  const std::string text = fmt::format("written to {}.json and .csv", name.string());
  flags.json ? log_info("{}", text) : fmt::print("{}\n", text);
}

// Runs `score`, and says what a stop signal left undone; it counts the cases that are done.
template <class Score>
SegmentationScores unless_stopped(std::size_t cases, const Score& score) {
  const StopSignals signals(StopPoint::kWindow);
  std::size_t done = 0;
  try {
    return score([&signals] { return signals.requested(); }, done);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kStopped) throw;
  }
  throw Error(ErrorKind::kStopped,
              fmt::format("[eval] stopped by {} after {} of {}; nothing is written", signals.name(), done,
                          counted(cases, "case")),
              "Run it again from the start.");
}

int evaluate_run(Flags& flags) {
  take_inputs(flags.overrides, flags.inputs);
  if (flags.run.empty())
    throw Error(ErrorKind::kUsage, "[eval] RUN: got nothing, expected a run folder or a checkpoint file",
                "Or give --predictions DIR and --labels DIR.");
  const SavedRun run = open_run(flags.run, flags.overrides);
  const std::vector<CaseEntry> cases =
      flags.inputs.empty() ? validation_cases(run.job.data) : list_cases(flags.inputs);
  if (cases.empty())
    throw Error(ErrorKind::kUsage, "[eval] no cases: data.validation of the run is empty",
                "Name some with --input FILE.");
  const EvaluationModel loaded = load_model(run, read_case_info(cases.front(), run.job.data.orientation));
  const fs::path name = output_of(flags, run.folder / other_name(flags, cases));
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::string> names = LabelMap(run.job.data.labels).names();
  PostprocessLearner learner(scored_regions(LabelMap(run.job.data)), run.job.validate.empty);
  EvaluationRequest request{.window = window_options(run.job.validate, run.job.patch, run.job.augment),
                            .metrics = metric_options(run.job.validate)};
  const SegmentationScores scores = unless_stopped(cases.size(), [&](std::function<bool()> should_stop,
                                                                     std::size_t& done) {
    request.on_case = [&](const ScoredCase& scored) {
      ++done;
      if (flags.learn) learner.add_case(scored.labels);
    };
    return evaluate_cases(run.job.data, cases, request,
                          patch_model(loaded.session.context, *loaded.session.model, std::move(should_stop)));
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  report(flags,
         {.checkpoint = run.checkpoint_path.filename().string(),
          .step = run.content.step,
          .seconds = seconds.count(),
          .loss_scale_history = loss_scale_history(run.folder)},
         scores, name);
  if (flags.learn) {
    const PostprocessLearner::Result learnt = learner.result();
    write_postprocess(run.folder, learnt, names);
    if (!flags.json)
      fmt::print("clean-up learnt: mean Dice {:.4f} -> {:.4f}, written to {}\n", learnt.dice_before,
                 learnt.dice_after, (run.folder / "postprocess.json").string());
  }
  return 0;
}

// The job that says what the values of the files mean: that of a run folder, or a job file.
JobOptions job_of(const Flags& flags) {
  const fs::path path = flags.run;
  return load_job(fs::is_directory(path) ? path / "config.resolved.yaml" : path, flags.overrides);
}

int evaluate_folders(const Flags& flags) {
  if (!flags.predictions || !flags.labels)
    throw Error(ErrorKind::kUsage,
                fmt::format("[eval] {}: got it alone, expected --predictions DIR and --labels DIR",
                            flags.predictions ? "--predictions" : "--labels"));
  if (!flags.inputs.empty() || flags.learn)
    throw Error(ErrorKind::kUsage,
                fmt::format("[eval] {}: got it together with --predictions, expected one of them",
                            flags.learn ? "--learn-postprocess" : "--input"));
  MetricOptions metrics;
  for (const MetricRow& row : metric_table()) metrics.metrics.emplace_back(row.name);
  DataOptions data;
  if (!flags.run.empty()) {
    const JobOptions job = job_of(flags);
    data = job.data;
    metrics = metric_options(job.validate);
  }
  const std::vector<LabelFilePair> pairs = match_label_files(*flags.predictions, *flags.labels);
  const fs::path name = output_of(flags, fs::path(*flags.predictions) / "evaluation");
  const auto start = std::chrono::steady_clock::now();
  const SegmentationScores scores =
      unless_stopped(pairs.size(), [&](const std::function<bool()>& should_stop, std::size_t& done) {
        const auto count_and_ask = [&, asked = std::size_t{0}]() mutable {
          done = asked++;  // asked once before each pair
          return should_stop();
        };
        return score_label_files(pairs, data.labels, data.other_labels, metrics, count_and_ask);
      });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  report(flags, {.predictions = *flags.predictions, .labels = *flags.labels, .seconds = seconds.count()},
         scores, name);
  return 0;
}

}  // namespace

Action eval_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments
      .optional_positional(
          "RUN", flags->run,
          "Run folder (its newest checkpoint) or checkpoint file; with --predictions a run folder or "
          "job file for its data.labels and validate, or nothing: each value is a class")
      .overrides(flags->overrides)
      .option("--input", "FILE", flags->inputs,
              "Cases with labels: files, folders or globs; default: data.validation of the run")
      .option("--predictions", "DIR", flags->predictions,
              "Score these label maps instead of a model's answers")
      .option("--labels", "DIR", flags->labels, "The label maps they are held against, by case name")
      .option("--output", "NAME", flags->output,
              "Write NAME.json and NAME.csv; default: evaluation in the run folder or in --predictions, with "
              "--input evaluation-CASE in the run folder")
      .flag("--learn-postprocess", flags->learn,
            "Find the clean-up that helps these cases: postprocess.json in the run folder")
      .flag("--json", flags->json, "Print JSON");
  return [flags] {
    return flags->predictions || flags->labels ? evaluate_folders(*flags) : evaluate_run(*flags);
  };
}

}  // namespace tandem

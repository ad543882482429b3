// `tandem predict`: labels of a volume, written on the grid of the file it came from.
#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "apps/commands.h"
#include "core/base/error.h"
#include "train/evaluate.h"
#include "train/session.h"

namespace tandem {
namespace {

struct Flags {
  std::string run, input, output;
  std::vector<std::string> overrides;
  bool overwrite = false;
};

// What can be wrong with the output is said before anything is computed.
void prepare_output(const Flags& flags) {
  namespace fs = std::filesystem;
  const fs::path output = flags.output;
  std::error_code error;
  if (!flags.output.ends_with(".nii") && !flags.output.ends_with(".nii.gz"))
    fail(ErrorKind::kUsage, "[predict] --output: got {}, expected a name that ends in .nii or .nii.gz",
         flags.output);
  if (fs::equivalent(output, flags.input, error))
    throw Error(ErrorKind::kUsage, fmt::format("[predict] {}: is input and output", flags.output),
                "Give the labels another name.");
  if (output.has_parent_path()) fs::create_directories(output.parent_path(), error);
  if (output.has_parent_path() && !fs::is_directory(output.parent_path()))
    throw Error(ErrorKind::kResource, fmt::format("[predict] {}: the folder cannot be made: {}",
                                                  output.parent_path().string(), error.message()));
}

int predict(const Flags& flags) {
  if (flags.input.empty() || flags.output.empty())
    throw Error(ErrorKind::kUsage, "[predict] --input and --output are needed",
                "Example: tandem predict runs/ct-001 --input scan.nii.gz --output labels.nii.gz.");
  if (!flags.overwrite && std::filesystem::exists(flags.output))
    throw Error(ErrorKind::kUsage, fmt::format("[predict] {}: exists already", flags.output),
                "Give --overwrite to replace it.");
  prepare_output(flags);
  const SavedRun run = open_run(flags.run, flags.overrides);
  std::unique_ptr<VoxelSource> source = open_case(case_of_file(flags.input), run.job.data.orientation);
  const EvaluationModel loaded = load_model(run, source->info());
  DataOptions data = run.job.data;
  data.other_labels = OtherLabels::kBackground;  // labels that a case may hold are not read
  const PreparedCase prepared(std::move(source), data, false);
  const LogitVolume logits =
      predict_case(prepared, window_options(run.job.predict, run.job.patch, run.job.augment),
                   patch_model(loaded.session.context, *loaded.session.model));
  write_prediction(flags.output, prepared.info(), logits.labels(), LabelMap(data.labels, data.other_labels));
  fmt::print("{}: {} -> {}\n", run.checkpoint_path.filename().string(), flags.input, flags.output);
  return 0;
}

}  // namespace

Action predict_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("RUN", flags->run, "Run folder (its newest checkpoint) or checkpoint file")
      .overrides(flags->overrides)
      .option("--input", "FILE", flags->input, "A case file (.h5) or a NIfTI image")
      .option("--output", "FILE", flags->output, "The NIfTI file to write (.nii or .nii.gz)")
      .flag("--overwrite", flags->overwrite, "Replace the output file");
  return [flags] { return predict(*flags); };
}

}  // namespace tandem

// `tandem predict`: labels or probabilities of volumes, written on the grids of the files they came from.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>

#include "apps/commands.h"
#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/folders.h"
#include "core/base/log.h"
#include "core/tensor/allocator.h"
#include "data/prediction.h"
#include "data/prediction_file.h"
#include "data/split.h"
#include "train/ensemble.h"
#include "train/postprocess_file.h"
#include "train/signals.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string run, output;
  std::vector<std::string> inputs, overrides;
  bool overwrite = false, dry_run = false;
};

struct Target {
  CaseEntry input;
  fs::path output;
};

// Error{kUsage} or Error{kResource} for what can be wrong with an output before anything is computed.
void check_target(const Target& target, bool overwrite) {
  std::error_code error;
  check_prediction_name(target.output);
  for (const std::string& image : target.input.images)
    if (fs::equivalent(target.output, image, error))
      throw Error(ErrorKind::kUsage, fmt::format("[predict] {}: is input and output", target.output.string()),
                  "Give the result another name.");
  if (!overwrite && fs::exists(target.output))
    throw Error(ErrorKind::kUsage, fmt::format("[predict] {}: exists already", target.output.string()),
                "Give --overwrite to replace it.");
  make_parent_folder("predict", target.output);
}

// Where each input goes: --output itself, or ID.nii.gz in it where it is a folder.
std::vector<Target> targets_of(const Flags& flags) {
  if (flags.inputs.empty() || (flags.output.empty() && !flags.dry_run))
    throw Error(ErrorKind::kUsage, "[predict] --input and --output are needed",
                "Example: tandem predict runs/ct-001 --input scan.nii.gz --output labels.nii.gz.");
  std::vector<CaseEntry> inputs = list_cases(flags.inputs);
  const bool folder = flags.output.ends_with('/') || fs::is_directory(flags.output);
  if (inputs.size() > 1 && !folder && !flags.dry_run)
    throw Error(ErrorKind::kUsage,
                fmt::format("[predict] --output: got the file {} for {} inputs, expected a folder",
                            flags.output, inputs.size()),
                "End its name with '/'.");
  std::vector<Target> targets;
  for (CaseEntry& input : inputs) {
    input.label.clear();  // not needed, so not read
    const fs::path name = folder ? fs::path(flags.output) / (input.id + ".nii.gz") : fs::path(flags.output);
    targets.push_back({std::move(input), name});
  }
  if (flags.dry_run) return targets;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    check_target(targets[i], flags.overwrite);
    for (std::size_t j = 0; j < i; ++j)
      if (targets[i].output == targets[j].output)
        fail(ErrorKind::kUsage, "[predict] {}: got two inputs for it, {} and {}, expected one",
             targets[i].output.string(), targets[j].input.file(), targets[i].input.file());
  }
  return targets;
}

std::string mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

// What a prediction takes: its windows, its bound, and the peak of the models on one of the windows.
void show_plan(Ensemble& ensemble, const Target& target, const PreparedCase& prepared,
               const PredictionRequest& request) {
  const JobOptions& job = ensemble.job();
  const WindowOptions window = window_options(job.predict, job.patch, job.augment);
  const std::vector<PatchModel> models = ensemble.models();
  const std::int64_t passes =
      (std::int64_t{1} << window.mirror_axes.size()) * static_cast<std::int64_t>(models.size());
  const Index3& patch = window.patch;
  const auto allocator = allocator_of(kCpuDevice);
  allocator->reset_peak();
  const Tensor image({window.batch_size, prepared.channels(), patch[0], patch[1], patch[2]}, DType::kF32,
                     kCpuDevice, MemoryCategory::kData);
  image.set_zero();
  for (const PatchModel& model : models) (void)model(image);
  const std::int64_t network = allocator->statistics().total_peak;
  const std::int64_t result =
      prediction_bytes(prepared.placement(), window, static_cast<std::int64_t>(models.size()), request)
          .total();
  const std::int64_t input = PreparedCase::memory_bytes(prepared.info(), job.data);
  fmt::print(
      "{}: {} voxels (z, y, x), {}, {} of {}, {} each\n"
      "  sums and result  {}   (computed; all logits at once would be {})\n"
      "  models           {}   (measured: weights and one window)\n"
      "  input            {}   (at most, if it is kept in memory)\n"
      "  together         {}\n",
      target.input.file(), to_string(prepared.shape()), counted(request.classes, "class", "classes"),
      counted(plan_windows(prepared.shape(), window).count(), "window"), to_string(patch),
      counted(passes, "forward pass", "forward passes"), mebibytes(result),
      mebibytes(voxel_count(prepared.shape()) * request.classes * 4), mebibytes(network), mebibytes(input),
      mebibytes(result + network + input));
}

using Spacing = std::array<double, 3>;

std::string text_of(const Spacing& mm) {
  return fmt::format("[{:.3g}, {:.3g}, {:.3g}]", mm[0], mm[1], mm[2]);
}

// The smallest and largest voxels of the training cases, as far as their files are still there.
std::optional<std::pair<Spacing, Spacing>> training_spacings(const DataOptions& data) {
  std::optional<std::pair<Spacing, Spacing>> range;
  try {
    for (const CaseEntry& entry : training_cases(data)) {
      const Spacing mm = read_case_info(entry, data.orientation).geometry.spacing_mm();
      if (!range) range.emplace(mm, mm);
      for (std::size_t a = 0; a < 3; ++a) {
        range->first[a] = std::min(range->first[a], mm[a]);
        range->second[a] = std::max(range->second[a], mm[a]);
      }
    }
  } catch (const Error&) {  // moved or deleted since: nothing to compare with
    return std::nullopt;
  }
  return range;
}

// Without data.spacing a model sees voxels as they are, and knows organs by their size in voxels.
void warn_of_spacing(const CaseInfo& input, const DataOptions& data,
                     const std::optional<std::pair<Spacing, Spacing>>& trained) {
  constexpr double kTolerance = 0.05;
  if (data.spacing || !trained) return;
  const auto& [low, high] = *trained;
  const Spacing mm = input.geometry.spacing_mm();
  bool unlike = false;
  for (std::size_t a = 0; a < 3; ++a)
    unlike = unlike || mm[a] < low[a] * (1 - kTolerance) || mm[a] > high[a] * (1 + kTolerance);
  if (!unlike) return;
  log_warning(
      "[predict] {}: voxels of {} mm (z, y, x), the training cases have {}{} mm: add data.spacing={} to "
      "resample it to what the model knows",
      input.file, text_of(mm), text_of(low), low == high ? "" : " to " + text_of(high), text_of(low));
}

Postprocess clean_up_of(const Ensemble& ensemble, const LabelMap& labels) {
  if (ensemble.job().predict.postprocess == PostprocessKind::kAuto)
    return read_postprocess(ensemble.members().front().folder, labels.names());
  return keep_largest_of_all(labels.classes());
}

// What is the same for every input.
struct Work {
  DataOptions data;
  std::optional<std::pair<Spacing, Spacing>> trained;
  bool dry_run = false;
};

// Error{kStopped} after a stop signal, with nothing written.
void predict_one(Ensemble& ensemble, const Target& target, const Work& work, const StopSignals& signals) {
  const JobOptions& job = ensemble.job();
  std::unique_ptr<VoxelSource> source = open_case(target.input, work.data.orientation);
  warn_of_spacing(source->info(), work.data, work.trained);
  ensemble.load(source->info());
  const PreparedCase prepared = prepare_whole_case(std::move(source), work.data);
  const LabelMap labels(work.data);
  PredictionRequest request = prediction_request(labels);
  request.probabilities = job.predict.save == PredictionKind::kProbabilities;
  if (work.dry_run) return show_plan(ensemble, target, prepared, request);
  CasePrediction result = predict_case(prepared, window_options(job.predict, job.patch, job.augment),
                                       ensemble.models([&signals] { return signals.requested(); }), request);
  std::string note;
  if (job.predict.postprocess != PostprocessKind::kNone && !request.probabilities)
    note = fmt::format(" (clean-up removed {})", counted(apply(clean_up_of(ensemble, labels), result.labels,
                                                               prepared.info().geometry.shape()),
                                                         "voxel"));
  if (request.probabilities)
    write_probabilities(target.output, prepared.info(), *result.probabilities, labels);
  else
    write_prediction(target.output, prepared.info(), result.labels, labels);
  fmt::print("{}: {} -> {}{}\n", ensemble.members().front().checkpoint_path.filename().string(),
             target.input.file(), target.output.string(), note);
}

[[noreturn]] void fail_stopped(const StopSignals& signals, const std::vector<Target>& targets,
                               std::size_t done) {
  throw Error(ErrorKind::kStopped,
              fmt::format("[predict] stopped by {}: {} of {} written, {} not", signals.name(), done,
                          counted(targets.size(), "prediction"), targets[done].output.string()),
              done == 0 ? "Run it again." : "Run it again with the inputs that are left.");
}

int predict(Flags& flags) {
  take_inputs(flags.overrides, flags.inputs);
  const std::vector<Target> targets = targets_of(flags);
  Ensemble ensemble(flags.run, flags.overrides);
  const StopSignals signals(StopPoint::kWindow);
  Work work{.data = ensemble.job().data, .dry_run = flags.dry_run};
  if (ensemble.job().predict.postprocess == PostprocessKind::kAuto)  // missing: said before the first case
    (void)clean_up_of(ensemble, LabelMap(work.data));
  work.data.other_labels = OtherLabels::kBackground;  // labels that a case may hold are not read
  if (!work.data.spacing) work.trained = training_spacings(work.data);
  std::size_t done = 0;
  try {
    for (; done < targets.size(); ++done) predict_one(ensemble, targets[done], work, signals);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kStopped) throw;
    fail_stopped(signals, targets, done);
  }
  return 0;
}

}  // namespace

Action predict_command(Arguments& arguments) {
  const auto flags = std::make_shared<Flags>();
  arguments.positional("RUN", flags->run, "Run folder (its newest checkpoint) or checkpoint file")
      .overrides(flags->overrides)
      .option("--input", "FILE", flags->inputs,
              "Case files (.h5), NIfTI images, folders or globs; several words, or several times")
      .option("--output", "FILE", flags->output,
              "The file to write (.nii, .nii.gz, .h5), or with a '/' at its end a folder")
      .flag("--overwrite", flags->overwrite, "Replace output files")
      .flag("--dry-run", flags->dry_run, "Only say how many windows and how much memory it takes");
  return [flags] { return predict(*flags); };
}

}  // namespace tandem

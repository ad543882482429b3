// `tandem data convert | synth`: case files from NIfTI images, and a phantom where there are none.
#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <memory>

#include "apps/commands.h"
#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/folders.h"
#include "core/config/numbers.h"
#include "core/config/tree.h"
#include "data/case_list.h"
#include "data/convert.h"
#include "data/nifti.h"
#include "data/phantom.h"

namespace tandem {
namespace {

struct ConvertFlags {
  ConvertOptions options;
  std::vector<std::string> regions, flips;
};

// "labels: 0 (1000 voxels), 77 (24 voxels)": the stored values, before any job gives them names.
void print_label_counts(const std::map<std::int32_t, std::int64_t>& counts) {
  std::string text;
  for (const auto& [value, voxels] : counts)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", value, counted(voxels, "voxel"));
  if (!text.empty()) fmt::print("labels: {}\n", text);
}

int run_convert(ConvertFlags& flags) {
  for (const std::string& region : flags.regions) flags.options.regions.push_back(parse_region(region));
  for (const std::string& axis : flags.flips) flags.options.flips.push_back(parse_axis(axis));
  if (flags.options.output.empty())
    fail(ErrorKind::kUsage, "[convert] --output: got nothing, expected the case file to write");
  const ConvertReport report = convert_case(flags.options);
  const auto spacing = report.geometry.spacing_mm();
  fmt::print("{}: case {}, {} voxels (z, y, x), {}, spacing {:g} {:g} {:g} mm, {}\n", flags.options.output,
             report.case_id, to_string(report.geometry.shape()), counted(report.channels, "channel"),
             spacing[0], spacing[1], spacing[2], report.geometry.orientation());
  print_label_counts(report.label_counts);
  if (flags.options.label.empty())
    fmt::print("labels: none: enough to predict, not to train; --label FILE adds them\n");
  return 0;
}

struct SynthFlags {
  std::string output;
  std::optional<std::string> label, shape;
  std::optional<std::int64_t> seed, size;
  bool overwrite = false;
};

void check_synth_names(const SynthFlags& flags) {
  if (!flags.label && !is_case_file_name(flags.output))
    throw Error(ErrorKind::kUsage,
                fmt::format("[synth] output: got {}, expected a name that ends in .h5, .hdf, .hdf5 or .hd5",
                            flags.output),
                "Pass --label too for NIfTI files.");
  if (!flags.label) return;
  for (const std::string& file : {flags.output, *flags.label})
    if (!is_nifti_name(file))
      fail(ErrorKind::kUsage, "[synth] output: got {}, expected a name that ends in .nii or .nii.gz", file);
  if (std::filesystem::path(flags.output).lexically_normal() ==
      std::filesystem::path(*flags.label).lexically_normal())
    fail(ErrorKind::kUsage, "[synth] output: got {} for image and labels, expected two files", flags.output);
}

// "300,512,512", or --size along each axis.
Index3 shape_of(const SynthFlags& flags) {
  if (flags.shape && flags.size)
    fail(ErrorKind::kUsage, "[synth] got both --shape and --size, expected one of them");
  if (!flags.shape) return flags.size ? Index3{*flags.size, *flags.size, *flags.size} : kPhantomShape;
  const ConfigNode list = parse_yaml_text("[" + *flags.shape + "]", "--shape");
  Index3 shape{};
  bool whole = list.items().size() == shape.size();
  for (std::size_t a = 0; whole && a < shape.size(); ++a) {
    const auto value = read_integer(list.items()[a].text()).value;
    whole = value && *value >= 1 && *value <= INT32_MAX;
    if (whole) shape[a] = static_cast<std::int64_t>(*value);
  }
  if (!whole) fail(ErrorKind::kUsage, "[synth] --shape: got '{}', expected voxels as z,y,x", *flags.shape);
  return shape;
}

int run_synth(const SynthFlags& flags) {
  const auto seed = static_cast<std::uint64_t>(flags.seed.value_or(1));
  const Index3 shape = shape_of(flags);
  check_synth_names(flags);
  for (const std::string& file : {flags.output, flags.label.value_or("")})
    if (!file.empty() && !flags.overwrite) expect_new_file("synth", "output", file);
  for (const std::string& file : {flags.output, flags.label.value_or("")}) make_parent_folder("synth", file);
  const Phantom phantom = make_phantom(shape, seed);
  if (!flags.label) {
    write_phantom_case(flags.output, shape, seed);
  } else {
    write_nifti(flags.output, phantom.image);
    write_nifti(*flags.label, phantom.labels);
  }
  fmt::print("{}: phantom {} of {} voxels (z, y, x): generated, not a patient\n", flags.output, seed,
             to_string(shape));
  std::map<std::int32_t, std::int64_t> counts;
  for (const std::int32_t value : phantom.labels.values) ++counts[value];
  print_label_counts(counts);
  return 0;
}

}  // namespace

Action data_convert_command(Arguments& arguments) {
  const auto flags = std::make_shared<ConvertFlags>();
  arguments
      .positionals("IMAGE", flags->options.images,
                   "NIfTI images (.nii, .nii.gz) on one grid: the channels of the case", 1)
      .option("--label", "FILE", flags->options.label, "NIfTI label map on the same grid")
      .option("--region", "AXIS=BEGIN:END", flags->regions,
              "Half-open index range of x, y or z of the canonical (RAS) volume")
      .option("--flip", "AXIS", flags->flips, "Mirror this axis afterwards")
      .option("--output", "FILE", flags->options.output, "Case file to write (.h5)")
      .option("--case-id", "NAME", flags->options.case_id,
              "Name of the case; default: from the image and the region")
      .option("--nan", "N", flags->options.nan_value, "Put this number where a voxel is not finite")
      .flag("--overwrite", flags->options.overwrite, "Replace an existing output");
  return [flags] { return run_convert(*flags); };
}

Action data_synth_command(Arguments& arguments) {
  const auto flags = std::make_shared<SynthFlags>();
  arguments.positional("OUTPUT", flags->output, "Case file (.h5), or with --label the NIfTI image")
      .option("--label", "FILE", flags->label, "Write NIfTI files instead: the labels go here")
      .option("--seed", "N", flags->seed, "Another phantom; default 1")
      .option("--size", "N", flags->size, "Voxels along each axis; default: the grid of the job ct-hip5")
      .option("--shape", "Z,Y,X", flags->shape, "Voxels along the three axes")
      .flag("--overwrite", flags->overwrite, "Replace existing outputs");
  return [flags] { return run_synth(*flags); };
}

}  // namespace tandem

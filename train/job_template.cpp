// Looking at cases, and the text of the job.
#include "train/job_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/config/tree.h"
#include "data/case_list.h"

namespace tandem {
namespace {

constexpr std::int64_t kMultiple = 4;  // strides 1, 2, 2 of the template's model
constexpr std::int64_t kMaxSide = 64;
constexpr std::size_t kMaxClasses = 256;

void read_voxels(const VoxelSource& source, CasesSurvey& survey) {
  const Index3& shape = source.info().geometry.shape();
  const auto plane = static_cast<std::size_t>(shape[1] * shape[2]);
  std::vector<float> values(plane * static_cast<std::size_t>(source.info().channels));
  std::vector<std::int32_t> labels(plane);
  for (std::int64_t z = 0; z < shape[0]; ++z) {
    source.read_image({z, 0, 0}, {1, shape[1], shape[2]}, values);
    source.read_labels({z, 0, 0}, {1, shape[1], shape[2]}, labels);
    for (const std::int32_t label : labels) ++survey.label_voxels[label];
    const auto [low, high] =
        std::minmax_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(plane));
    survey.lowest = std::min(survey.lowest, *low);
    survey.highest = std::max(survey.highest, *high);
  }
}

// Largest multiple of kMultiple within the median size of each axis and kMaxSide.
Index3 patch_size(const CasesSurvey& survey) {
  Index3 size{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::vector<std::int64_t> sizes;
    for (const CaseInfo& info : survey.cases) sizes.push_back(info.geometry.shape()[axis]);
    std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2),
                     sizes.end());
    const std::int64_t side = std::min(sizes[sizes.size() / 2], kMaxSide);
    size[axis] = std::max(side / kMultiple * kMultiple, kMultiple);
  }
  return size;
}

std::string quoted(const std::string& text) { return to_flow_yaml(ConfigNode::scalar(text, true)); }

std::string file_list(const std::vector<CaseInfo>& cases, std::size_t begin, std::size_t end) {
  if (begin == end) return " []";
  std::string text;
  for (std::size_t i = begin; i < end; ++i) text += fmt::format("\n    - {}", quoted(cases[i].file));
  return text;
}

std::string class_lines(const CasesSurvey& survey) {
  std::string text = "    background: 0\n";
  for (const auto& [value, voxels] : survey.label_voxels)
    if (value != 0)
      text +=
          fmt::format("    label_{}: {}    # {}: give it a name\n", value, value, counted(voxels, "voxel"));
  return text;
}

std::string normalize_lines(const CasesSurvey& survey) {
  const bool is_ct = survey.lowest < -500;
  std::string text = fmt::format("  # Values seen: {:g} to {:g}.{}\n  normalize:\n", survey.lowest,
                                 survey.highest, is_ct ? " Taken for CT in Hounsfield units: clipped." : "");
  for (std::int64_t channel = 0; channel < survey.cases.front().channels; ++channel)
    text +=
        fmt::format("    - {{channel: {}, kind: zscore{}}}\n", channel, is_ct ? ", clip: [-1000, 1000]" : "");
  return text;
}

}  // namespace

CasesSurvey survey_cases(const std::vector<CaseEntry>& entries, std::int64_t max_read) {
  CasesSurvey survey{.format = !entries.empty() && is_nifti_name(entries.front().file()) ? "nifti" : "hdf5"};
  for (const CaseEntry& entry : entries) {
    const std::string& file = entry.file();
    const std::unique_ptr<VoxelSource> source =
        survey.read_cases < max_read ? open_case(entry) : std::unique_ptr<VoxelSource>();
    CaseInfo info = source ? source->info() : read_case_info(entry);
    info.file = file;
    if (!info.has_labels)
      throw Error(ErrorKind::kData,
                  fmt::format("[init] {}: got a case without labels, expected a labelled one", file),
                  how_to_label(file));
    if (!survey.cases.empty() && info.channels != survey.cases.front().channels)
      fail(ErrorKind::kData, "[init] {}: got {}, expected {} as {}", file, counted(info.channels, "channel"),
           survey.cases.front().channels, survey.cases.front().file);
    survey.cases.push_back(info);
    if (!source) continue;
    read_voxels(*source, survey);
    ++survey.read_cases;
  }
  if (survey.cases.empty()) fail(ErrorKind::kData, "[init] got no cases, expected at least one");
  if (survey.label_voxels.size() > kMaxClasses)
    fail(ErrorKind::kData,
         "[init] got {} different label values, expected at most {}: is /label a label map?",
         survey.label_voxels.size(), kMaxClasses);
  return survey;
}

std::string job_template(const CasesSurvey& survey, const TemplateOptions& options) {
  const std::size_t count = survey.cases.size();
  const auto held_out = static_cast<std::size_t>(
      count < 2 ? 0 : std::max(1.0, std::round(options.validation_share * static_cast<double>(count))));
  const std::size_t split = count - std::min(held_out, count - 1);
  const Index3 patch = patch_size(survey);
  const auto spacing = survey.cases.front().geometry.spacing_mm();
  std::string text = fmt::format(
      "# Made by `tandem init` from {}; labels and values of {} were looked at.\n"
      "# Every key and its default: `tandem config show` and docs/config.md. Check: `tandem config check "
      "FILE`.\n"
      "name: {}\ntask: segmentation\nseed: 1234\n\n",
      counted(count, "case"), survey.read_cases, quoted(options.name));
  text +=
      "precision:\n  compute: auto        # auto, fp32, bf16, fp16 (with dynamic loss scaling); "
      "docs/numerics.md\n\n";
  text += fmt::format("data:\n  format: {}\n  train:{}\n", survey.format, file_list(survey.cases, 0, split));
  text += fmt::format(
      "  # The last cases; say here which of yours belong together (one patient, one side).\n"
      "  validation:{}\n",
      file_list(survey.cases, split, count));
  text +=
      "  # Name the classes. Several values may be one class: liver: [1, 2]. Class 0 is the background.\n  "
      "labels:\n" +
      class_lines(survey);
  text += "  other_labels: error  # background: values that no class names count as background\n" +
          normalize_lines(survey);
  text +=
      "\naugment: {mirror: [], noise_std: 0.05, brightness: [0.9, 1.1]}   # mirror: [z, y, x] where left and "
      "right are alike\n\n";
  text += fmt::format(
      "model: {{name: unet3d, features: [16, 32, 64], norm: instance, activation: \"leaky_relu:0.01\"}}\n\n"
      "# Voxels z, y, x; multiples of {}. The first case has spacing {:g} {:g} {:g} mm.\n"
      "patch: {{size: [{}, {}, {}], foreground: 0.5, class_first: true}}\n\n",
      kMultiple, spacing[0], spacing[1], spacing[2], patch[0], patch[1], patch[2]);
  text +=
      "loss: {name: dice_ce}\noptimizer: {name: adamw, lr: 2.0e-3, weight_decay: 1.0e-2}\n"
      "schedule: {name: poly, power: 0.9, warmup: 20}\n\n";
  text +=
      "train: {batch_size: 2, iterations: 2000, clip_norm: 12}   # try `tandem train FILE --overfit 2` "
      "first\n";
  text += "validate: {every: 200, overlap: 0.5}\ncheckpoint: {every: 200, keep_last: 2}\n";
  text += split < count ? "select: {metric: dice}   # the best checkpoint is kept too\n" : "";
  return text + "log: {every: 10}          # metrics.jsonl, metrics.csv, TensorBoard, report.html\n";
}

}  // namespace tandem

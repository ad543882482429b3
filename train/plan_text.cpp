// The YAML of a plan. What is decided is train/plan.cpp's.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/counted.h"
#include "core/config/numbers.h"
#include "core/config/tree.h"
#include "data/spatial.h"
#include "train/plan.h"

namespace tandem {
namespace {

std::string quoted(const std::string& text) { return to_flow_yaml(ConfigNode::scalar(text, true)); }

template <class T>
std::string list_of(const T& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string triples_of(const std::vector<std::array<std::int64_t, 3>>& triples) {
  std::vector<std::string> items;
  for (const auto& triple : triples) items.push_back(list_of(triple));
  return list_of(items);
}

std::string numbers_of(const std::array<double, 3>& values) {
  std::vector<std::string> items;
  for (const double value : values) items.push_back(format_number(value));
  return list_of(items);
}

// "3, 0.78, 0.78 to 5, 0.9, 0.9".
std::string spacing_range(const PlanSurvey& survey) {
  Spacing low = survey.spacings().front(), high = low;
  for (const Spacing& spacing : survey.spacings())
    for (std::size_t a = 0; a < 3; ++a)
      low[a] = std::min(low[a], spacing[a]), high[a] = std::max(high[a], spacing[a]);
  return fmt::format("{:.4g}, {:.4g}, {:.4g} to {:.4g}, {:.4g}, {:.4g}", low[0], low[1], low[2], high[0],
                     high[1], high[2]);
}

// Folds as nnU-Net's, as many as there are cases for.
std::string split_line(std::size_t cases) {
  if (cases < 2) return "  validation: []            # one case: nothing is left to validate on\n";
  const std::size_t folds = std::min<std::size_t>(cases, 5);
  return fmt::format("  split: {{folds: {}, fold: 0}}   # train one job for each fold, 0 to {}\n", folds,
                     folds - 1);
}

std::string label_lines(const PlanSurvey& survey) {
  if (survey.data.format == "nnunet") return "  # Labels are those of dataset.json.\n";
  std::string text = "  # Name the classes. Several values may be one class: liver: [1, 2].\n  labels:\n";
  for (const LabelClass& label : survey.data.labels) {
    const auto value = static_cast<std::int32_t>(label.values.front());
    const auto voxels = survey.label_voxels.find(value);
    text += fmt::format("    {}: {}    # {}\n", label.name, value,
                        counted(voxels == survey.label_voxels.end() ? 0 : voxels->second, "voxel"));
  }
  return text;
}

std::string normalize_lines(const PlanSurvey& survey, const JobPlan& plan) {
  std::string text = "  normalize:\n";
  for (const NormalizeOptions& options : survey.data.normalize) {
    const NormalizeKind kind = options.kind;
    const bool masked = plan.masked && kind == NormalizeKind::kZscore;
    text += fmt::format("    - {{channel: {}, kind: {}{}}}\n", options.channel,
                        kind == NormalizeKind::kCt       ? "ct"
                        : kind == NormalizeKind::kNone   ? "none"
                        : kind == NormalizeKind::kMinmax ? "minmax"
                                                         : "zscore",
                        masked ? ", masked: true" : "");
  }
  return text;
}

bool names_sides(const DataOptions& data) {
  return std::any_of(data.labels.begin(), data.labels.end(), [](const LabelClass& label) {
    std::string name = label.name;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name.find("left") != std::string::npos || name.find("right") != std::string::npos;
  });
}

std::string data_lines(const PlanSurvey& survey, const JobPlan& plan, const std::vector<std::string>& paths) {
  std::vector<std::string> quoted_paths;
  for (const std::string& path : paths) quoted_paths.push_back(quoted(path));
  std::string text =
      fmt::format("data:\n  format: {}\n  train: {}\n", survey.data.format, list_of(quoted_paths));
  text += split_line(survey.cases.size()) + label_lines(survey);
  text += fmt::format(
      "  # Spacings {} mm (z, y, x); the target is their median, or the 10th percentile of a coarse axis.\n",
      spacing_range(survey));
  text += plan.keeps_spacing ? "  spacing: keep             # all cases have it already\n"
                             : fmt::format("  spacing: {}\n", numbers_of(plan.spacing_mm));
  text += plan.crops ? fmt::format("  crop_nonzero: true        # leaves {:.0f} % of the median case{}\n",
                                   100 * plan.kept_part,
                                   plan.masked ? ": z-scores use the voxels that are not 0" : "")
                     : "  crop_nonzero: false       # no case has an edge of zeros\n";
  return text + normalize_lines(survey, plan) + "\n";
}

std::string network_lines(const PlanSurvey& survey, const JobPlan& plan, double memory_gb) {
  const NetworkTopology& topology = plan.network.topology;
  const double values = conv_output_values(topology, survey.data.outputs());
  std::string text = fmt::format(
      "# An axis is halved while it has 8 voxels and is not coarser than twice the finest one; kernels span "
      "it from "
      "then on.\n"
      "model:\n  name: unet3d\n  features: {}\n  strides: {}\n  kernels: {}\n"
      "  norm: instance\n  activation: \"leaky_relu:0.01\"\n\n",
      list_of(planned_features(topology.strides.size())), triples_of(topology.strides),
      triples_of(topology.kernels));
  return text + fmt::format(
                    "# Median shape {:g}, {:g}, {:g} voxels. The convolutions of one sample put out {:.1f}e6 "
                    "values; "
                    "560e6 in batches\n# of 2 take about 8 GiB: {:.1f} of the {:g} GiB asked for.\n"
                    "patch: {{size: {}, foreground: 0.33, class_first: true}}\n\n",
                    plan.shape[0], plan.shape[1], plan.shape[2], values / 1e6,
                    values * static_cast<double>(plan.network.batch) / 2 / 560e6 * 8, memory_gb,
                    list_of(topology.patch));
}

}  // namespace

std::string plan_text(const PlanSurvey& survey, const JobPlan& plan, const std::string& name,
                      const std::vector<std::string>& data_paths, double memory_gb) {
  const std::size_t cases = survey.cases.size();
  std::string text = fmt::format(
      "# Made by `tandem plan` from {} by the rules of nnU-Net (docs/data.md). Change what you know "
      "better.\n"
      "# Every key and its default: docs/config.md. Check: `tandem config check FILE`, then `tandem train "
      "FILE "
      "--dry-run`.\nname: {}\ntask: segmentation\nseed: 1234\n\n"
      "precision: {{compute: auto}}   # fp32, bf16, fp16 (with dynamic loss scaling): docs/numerics.md\n\n",
      counted(cases, "case"), quoted(name));
  text += data_lines(survey, plan, data_paths);
  text += fmt::format(
      "augment:\n  mirror: {}{}\n  rotate_deg: {}\n  scale: [0.7, 1.4]\n  noise_std: [0, 0.1]\n  blur_sigma: "
      "[0.5, 1]\n"
      "  brightness: [0.75, 1.25]\n  contrast: [0.75, 1.25]\n  low_resolution: [0.5, 1]\n  gamma: [0.7, "
      "1.5]\n"
      "  probability: {{noise: 0.1, brightness: 0.15}}\n\n",
      names_sides(survey.data) ? "[z, y]" : "[z, y, x]",
      names_sides(survey.data) ? "            # not x: class names say left or right"
                               : "         # leave an axis out where its sides differ in meaning",
      is_flat_patch(plan.network.topology.patch) ? "180           # about z alone: the patch is flat" : "30");
  text += network_lines(survey, plan, memory_gb);
  text += fmt::format(
      "loss: {{name: {}, dice: {{batch: {}, background: false}}}}   # batch: where a patch is less than "
      "a quarter "
      "of a case\n\n"
      "optimizer: {{name: sgd, lr: 0.01, momentum: 0.99, nesterov: true, weight_decay: 3.0e-5}}\n"
      "schedule: {{name: poly, power: 0.9}}\n\n"
      "train: {{batch_size: {}, epochs: 1000, iterations_per_epoch: 250, clip_norm: 12}}   # 250000 steps: "
      "fewer "
      "on a CPU\n",
      survey.data.regions.empty() ? "dice_ce" : "dice_bce", plan.batch_dice, plan.network.batch);
  text += fmt::format("validate: {{every: {}, overlap: 0.5}}\n", cases < 2 ? 0 : 12500);
  if (cases >= 2) text += "select: {metric: dice}       # the best checkpoint is kept beside the last\n";
  return text +
         "predict: {overlap: 0.5, mirror_tta: true}\ncheckpoint: {every: 1250, keep_last: 2}\nlog: {every: "
         "10}\n";
}

}  // namespace tandem

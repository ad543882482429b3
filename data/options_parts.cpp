// Descriptions of the smaller data options: splits, patches, probabilities of augmentation, names of axes.
#include <fmt/core.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/config/numbers.h"
#include "data/options.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxEdge = 4096;
constexpr double kMaxWeight = 1e6;

// {hip: 2, iliopsoas: 0.5} or null.
void read_class_weights(const ConfigNode& node, ErrorList& errors,
                        std::vector<std::pair<std::string, double>>& weights) {
  if (!node.is_map() && !node.is_null())
    return errors.wrong(node, "a map of class names to weights, as {hip: 2}, or null");
  std::vector<std::pair<std::string, double>> read;
  for (const ConfigEntry& entry : node.entries()) {
    const std::optional<double> weight =
        entry.value.is_scalar() ? read_number(entry.value.text()).value : std::nullopt;
    if (!weight || !(*weight >= 0 && *weight <= kMaxWeight))
      return errors.wrong(entry.value, "a number from 0 to 1e6");
    read.emplace_back(entry.key, *weight);
  }
  weights = std::move(read);
}

ConfigNode write_class_weights(const std::vector<std::pair<std::string, double>>& weights) {
  if (weights.empty()) return {};
  ConfigNode map = ConfigNode::map();
  for (const auto& [name, weight] : weights) map.set(name, ConfigNode::scalar(format_number(weight)));
  return map;
}

}  // namespace

Fields fields(PatchOptions& o) {
  return Fields()
      .integers("size", o.size, {.min = 1, .max = kMaxEdge},
                "Size of a training patch and of a prediction window: z, y, x", "voxels")
      .choice("sampling", o.sampling, {{"random", PatchSampling::kRandom}, {"grid", PatchSampling::kGrid}},
              "random: an epoch is one patch of each case, drawn anew; grid: all patches of a regular grid")
      .number("foreground", o.foreground, {.min = 0, .max = 1},
              "Part of each batch whose patches are centred on a foreground voxel")
      .flag("class_first", o.class_first,
            "Choose the class of that voxel first, all classes of the case alike; else any foreground voxel "
            "alike")
      .custom(
          "class_weights", "map of name: number, or null",
          [&o](const ConfigNode& node, ErrorList& errors) {
            read_class_weights(node, errors, o.class_weights);
          },
          [&o] { return write_class_weights(o.class_weights); },
          "How often class_first chooses a foreground class, relative to the others of the case; classes not "
          "named: 1")
      .integers("stride", o.stride, {.min = 1, .max = kMaxEdge},
                "Distance of the grid's patches, z y x; the last one is pulled back to the edge; null: size",
                "voxels")
      .number("min_foreground", o.min_foreground, {.min = 0, .max = 1, .exclusive_max = true},
              "Patches stay whose part of foreground voxels is larger; null: all")
      .number("slack", o.slack, {.min = 0, .max = 1}, "Part of the other patches that stay too")
      .only_for({"foreground", "class_first", "class_weights"}, "sampling", {"random"})
      .only_for({"stride", "min_foreground", "slack"}, "sampling", {"grid"})
      .check(
          [&o](ErrorList& errors) {
            if (!o.class_weights.empty() && !o.class_first)
              errors.rule("class_weights", "got weights with class_first: false, expected class_first: true");
          },
          {"sampling", "class_weights", "class_first"});
}

Fields fields(SplitOptions& o) {
  return Fields()
      .path("file", o.file,
            "A splits_final.json of nnU-Net: a list of {train, val} with ids of cases; null: none")
      .integer("folds", o.folds, {.min = 2, .max = 1000},
               "Folds of cross validation over data.train; null: none")
      .integer("fold", o.fold, {.min = 0, .max = 999}, "Which fold is validation")
      .numbers("ratios", o.ratios, {.min = 0, .max = 1, .min_size = 2, .max_size = 3},
               "Shares of train, validation and test of data.train; null: none")
      .text("group", o.group,
            "Cases whose ids agree up to the first of this text, such as _, stay together; null: each alone")
      .check([&o](ErrorList& errors) {
        if (int{o.file.has_value()} + int{o.folds.has_value()} + int{o.ratios.has_value()} > 1)
          errors.rule("file", "got more than one of file, folds and ratios, expected one");
        if (o.folds && o.fold >= *o.folds)
          errors.rule("fold", fmt::format("got {}, expected 0 to {}", o.fold, *o.folds - 1));
        double sum = 0;
        for (const double ratio : o.ratios.value_or(std::vector<double>())) sum += ratio;
        if (sum > 1 + 1e-9) errors.rule("ratios", fmt::format("got a sum of {:g}, expected at most 1", sum));
      });
}

Fields fields(AugmentProbability& o) {
  const NumberRange range{.min = 0, .max = 1};
  return Fields()
      .number("mirror", o.mirror, range, "Of mirroring, for each axis apart")
      .number("rotate", o.rotate, range, "Of a rotation")
      .number("scale", o.scale, range, "Of a change of scale")
      .number("elastic", o.elastic, range, "Of elastic shifts")
      .number("noise", o.noise, range, "Of noise")
      .number("blur", o.blur, range, "Of blur; then half of the channels are blurred")
      .number("brightness", o.brightness, range, "Of a brightness factor")
      .number("contrast", o.contrast, range, "Of a change of contrast")
      .number("low_resolution", o.low_resolution, range,
              "Of low resolution; then half of the channels get it")
      .number("gamma_inverted", o.gamma_inverted, range, "Of a gamma curve on the negative image")
      .number("gamma", o.gamma, range, "Of a gamma curve");
}

std::vector<int> axes_of(const std::vector<std::string>& names) {
  std::vector<int> axes;
  for (const std::string& name : names) {
    check_internal(name == "z" || name == "y" || name == "x", "an axis name other than z, y, x");
    axes.push_back(name == "z" ? 0 : name == "y" ? 1 : 2);
  }
  return axes;
}

// "x" twice, or another word: a rule of `key`.
void check_axes(const std::vector<std::string>& axes, std::string_view key, ErrorList& errors) {
  std::vector<std::string> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  for (const std::string& axis : sorted)
    if (axis != "x" && axis != "y" && axis != "z")
      errors.rule(key, fmt::format("got '{}', expected x, y or z", axis));
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    errors.rule(key, "got an axis twice, expected each once");
}

}  // namespace tandem

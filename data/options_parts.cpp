// Descriptions of the smaller data options: splits, probabilities of augmentation, names of axes.
#include <fmt/core.h>

#include "core/base/error.h"
#include "data/options.h"

namespace tandem {

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

}  // namespace tandem

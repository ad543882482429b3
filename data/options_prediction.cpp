// Descriptions of the options of validation and prediction.
#include <fmt/core.h>

#include <algorithm>

#include "data/options.h"
#include "data/segmentation_metrics.h"

namespace tandem {
namespace {

const std::vector<std::pair<std::string, BlendKind>> kBlends{{"gaussian", BlendKind::kGaussian},
                                                             {"constant", BlendKind::kConstant}};

NumberRange overlap_range() { return {.min = 0, .max = 0.95}; }
constexpr const char* kOverlapDoc = "Part of a patch that the next one covers again, along each axis";
constexpr const char* kBlendDoc =
    "Weight of a patch's voxels where patches overlap: gaussian around its centre, or all the same";
constexpr const char* kMirrorTtaDoc =
    "Average the logits over all mirrored copies along these axes; true: those of augment.mirror";

// true, false or [z, y].
void read_mirror(const ConfigNode& node, ErrorList& errors, MirrorTta& value) {
  const std::string& text = node.text();
  if (node.is_list()) {
    std::vector<std::string> axes;
    for (const ConfigNode& item : node.items()) axes.push_back(item.text());
    value = {.on = !axes.empty(), .axes = std::move(axes)};
  } else if (node.is_scalar() && !node.quoted() && (text == "true" || text == "false")) {
    value = {.on = text == "true", .axes = std::nullopt};
  } else {
    errors.wrong(node, "true, false or a list of axes, as [z, y]");
  }
}

ConfigNode write_mirror(const MirrorTta& value) {
  if (!value.axes) return ConfigNode::scalar(value.on ? "true" : "false");
  ConfigNode list = ConfigNode::list();
  for (const std::string& axis : *value.axes) list.append(ConfigNode::scalar(axis));
  return list;
}

void add_mirror(Fields& fields, MirrorTta& value) {
  fields.custom(
      "mirror_tta", "flag or list of texts",
      [&value](const ConfigNode& node, ErrorList& errors) { read_mirror(node, errors, value); },
      [&value] { return write_mirror(value); }, kMirrorTtaDoc);
  fields.check(
      [&value](ErrorList& errors) {
        if (value.axes) check_axes(*value.axes, "mirror_tta", errors);
      },
      {"mirror_tta"});
}

}  // namespace

Fields fields(ValidateOptions& o) {
  Fields list;
  list.integer("every", o.every, {.min = 0, .max = 1'000'000'000},
               "Validate each so many steps; 0: only after the last step", "steps")
      .number("overlap", o.overlap, overlap_range(), kOverlapDoc)
      .choice("blend", o.blend, kBlends, kBlendDoc);
  add_mirror(list, o.mirror_tta);
  list.texts(
          "metrics", o.metrics,
          "Reported per class and case, of dice, iou, hd, hd95, hd95_pooled, assd, nsd; dice and iou always")
      .number("nsd_mm", o.nsd_mm, {.min = 0, .max = 1e6}, "Distance that nsd tolerates", "mm")
      .choice("empty", o.empty, {{"worst", EmptyPolicy::kWorst}, {"skip", EmptyPolicy::kSkip}},
              "Score of a class that the reference lacks and the prediction has: worst: 0, distances the "
              "diagonal of the image; skip: none. Absent in both: never scored")
      .check(
          [&o](ErrorList& errors) {
            const std::span<const MetricRow> known = metric_table();
            for (const std::string& metric : o.metrics)
              if (std::none_of(known.begin(), known.end(),
                               [&](const auto& row) { return row.name == metric; }))
                errors.rule(
                    "metrics",
                    fmt::format("got '{}', expected dice, iou, hd, hd95, hd95_pooled, assd or nsd", metric));
          },
          {"metrics"});
  return list;
}

Fields fields(PredictOptions& o) {
  Fields list;
  list.number("overlap", o.overlap, overlap_range(), kOverlapDoc)
      .choice("blend", o.blend, kBlends, kBlendDoc);
  add_mirror(list, o.mirror_tta);
  return list.integer("batch_size", o.batch_size, {.min = 1, .max = 4096}, "Windows predicted at once")
      .choice("save", o.save,
              {{"labels", PredictionKind::kLabels}, {"probabilities", PredictionKind::kProbabilities}},
              "What is written: the class of each voxel, or the probability of each class (F32)")
      .choice(
          "postprocess", o.postprocess,
          {{"none", PostprocessKind::kNone},
           {"keep_largest", PostprocessKind::kKeepLargest},
           {"auto", PostprocessKind::kAuto}},
          "Clean-up of labels; keep_largest: of each class only the largest component (26 neighbours) stays; "
          "auto: what `tandem eval --learn-postprocess` found")
      .paths("ensemble", o.ensemble,
             "Run folders of other models (folds) whose probabilities are averaged with the "
             "run's own");
}

}  // namespace tandem

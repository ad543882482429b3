// Descriptions of the data options and the rules between them.
#include "data/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "core/base/error.h"
#include "data/segmentation_metrics.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxClasses = 256;
constexpr std::int64_t kMaxEdge = 4096;
const std::vector<std::pair<std::string, BlendKind>> kBlends{{"gaussian", BlendKind::kGaussian},
                                                             {"constant", BlendKind::kConstant}};

std::optional<std::int64_t> whole_number(const ConfigNode& node) {
  std::int64_t value = 0;
  const std::string& text = node.text();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool fits = value >= INT32_MIN && value <= INT32_MAX;
  if (!node.is_scalar() || error != std::errc() || end != text.data() + text.size() || !fits)
    return std::nullopt;
  return value;
}

// {background: 0, hip: [77, 78]}: the order of the keys is the order of the classes.
void read_labels(const ConfigNode& node, ErrorList& errors, std::vector<LabelClass>& labels) {
  if (!node.is_map())
    return errors.wrong(node, "a map of class names to values, as {background: 0, hip: [77, 78]}");
  std::vector<LabelClass> read;
  for (const ConfigEntry& entry : node.entries()) {
    LabelClass label{entry.key, {}};
    const ErrorList::Scope scope(errors, entry.key);
    const std::vector<ConfigNode> one{entry.value};
    for (const ConfigNode& item : entry.value.is_list() ? entry.value.items() : one) {
      const std::optional<std::int64_t> value = whole_number(item);
      if (!value) return errors.wrong(item, "a whole number within 32 bits, or a list of them");
      label.values.push_back(*value);
    }
    if (label.values.empty()) return errors.wrong(entry.value, "at least one value");
    read.push_back(std::move(label));
  }
  labels = std::move(read);
}

ConfigNode write_labels(const std::vector<LabelClass>& labels) {
  ConfigNode map = ConfigNode::map();
  for (const LabelClass& label : labels) {
    ConfigNode list = ConfigNode::list();
    for (const std::int64_t value : label.values) list.append(ConfigNode::scalar(std::to_string(value)));
    map.set(label.name, label.values.size() == 1 ? list.items().front() : list);
  }
  return map;
}

void check_labels(const DataOptions& options, ErrorList& errors) {
  if (options.labels.empty()) return;  // reported as a missing key
  if (options.classes() < 2 || options.classes() > kMaxClasses)
    errors.rule("labels", fmt::format("got {} classes, expected 2 to {}", options.classes(), kMaxClasses));
  if (options.labels.front().name != "background")
    errors.rule("labels", fmt::format("got '{}' as the first class, expected 'background'",
                                      options.labels.front().name));
  std::map<std::int64_t, std::string> owner;
  for (const LabelClass& label : options.labels)
    for (const std::int64_t value : label.values) {
      const auto [other, added] = owner.emplace(value, label.name);
      if (!added)
        errors.rule("labels", fmt::format("got value {} in both '{}' and '{}', expected each value once",
                                          value, other->second, label.name));
    }
}

void check_range(const std::optional<std::array<double, 2>>& range, std::string_view key, ErrorList& errors) {
  if (range && !((*range)[0] < (*range)[1]))
    errors.rule(key,
                fmt::format("got [{}, {}], expected a lower and a higher number", (*range)[0], (*range)[1]));
}

void check_channels(const DataOptions& options, ErrorList& errors) {
  std::vector<std::int64_t> channels;
  for (const NormalizeOptions& item : options.normalize) channels.push_back(item.channel);
  std::sort(channels.begin(), channels.end());
  const auto twice = std::adjacent_find(channels.begin(), channels.end());
  if (twice != channels.end())
    errors.rule("normalize", fmt::format("got channel {} twice, expected each channel once", *twice));
}

NumberRange overlap_range() { return {.min = 0, .max = 0.95}; }
constexpr const char* kOverlapDoc = "Part of a patch that the next one covers again, along each axis";
constexpr const char* kBlendDoc =
    "Weight of a patch's voxels where patches overlap: gaussian around its centre, or all the same";
constexpr const char* kMirrorTtaDoc =
    "Average the logits over all mirrored copies along these axes; true: those of augment.mirror";

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
  fields.check([&value](ErrorList& errors) {
    if (value.axes) check_axes(*value.axes, "mirror_tta", errors);
  });
}

}  // namespace

Fields fields(NormalizeOptions& o) {
  return Fields()
      .integer("channel", o.channel, {.min = 0, .max = 1024}, "Channel of the image")
      .choice("kind", o.kind,
              {{"zscore", NormalizeKind::kZscore},
               {"ct", NormalizeKind::kCt},
               {"minmax", NormalizeKind::kMinmax},
               {"none", NormalizeKind::kNone}},
              "zscore: by mean and standard deviation of the volume, after clip; ct: by the numbers given "
              "here; minmax: to [0, 1]; none: as it is")
      .numbers("clip", o.clip, {}, "Values are limited to this range first")
      .number("mean", o.mean, {}, "Subtracted")
      .number("std", o.std, {.min = 0, .exclusive_min = true}, "Divided by")
      .only_for({"mean", "std"}, "kind", {"ct"})
      .check([&o](ErrorList& errors) { check_range(o.clip, "clip", errors); });
}

Fields fields(DataOptions& o) {
  return Fields()
      .choice(
          "format", o.format, {"hdf5", "nifti"},
          "Form of the files; hdf5: one case each, as `tandem data convert` writes them; nifti: images with "
          "their label maps (docs/formats.md)")
      .paths("train", o.train, "Training cases: files, folders or globs")
      .paths("validation", o.validation, "Cases of validation and `tandem eval`")
      .paths("test", o.test, "Cases kept apart; `tandem data check` looks for them in the other two")
      .custom(
          "labels", "map of name: value or list of values",
          [&o](const ConfigNode& node, ErrorList& errors) { read_labels(node, errors, o.labels); },
          [&o] { return write_labels(o.labels); },
          "Classes in order, background first; several values of the files may form one class")
      .choice("other_labels", o.other_labels,
              {{"error", OtherLabels::kError}, {"background", OtherLabels::kBackground}},
              "What values that no class names are")
      .choice("orientation", o.orientation,
              {{"canonical", Orientation::kCanonical}, {"keep", Orientation::kKeep}},
              "Axes of NIfTI images; canonical: turned so that x runs right, y front, z up; keep: as stored")
      .list("normalize", o.normalize,
            "How each channel is normalised; channels not named: zscore without clip")
      .choice("cache", o.cache, {{"ram", CacheKind::kRam}, {"none", CacheKind::kNone}},
              "Keep training cases in memory, or read each patch from its file")
      .bytes("cache_bytes", o.cache_bytes, {.min = 0},
             "Most memory for cached cases; the others are read from their files")
      .integer_or_auto("workers", o.workers, {.min = 0, .max = 256},
                       "Loader threads; 0: load in the training thread")
      .integer("prefetch", o.prefetch, {.min = 1, .max = 1024}, "Batches prepared ahead", "batches")
      .required("labels")
      .check([&o](ErrorList& errors) {
        check_labels(o, errors);
        check_channels(o, errors);
      });
}

Fields fields(AugmentProbability& o) {
  const NumberRange range{.min = 0, .max = 1};
  return Fields()
      .number("mirror", o.mirror, range, "Of mirroring, for each axis apart")
      .number("noise", o.noise, range, "Of noise")
      .number("brightness", o.brightness, range, "Of a brightness factor");
}

Fields fields(AugmentOptions& o) {
  return Fields()
      .texts("mirror", o.mirror,
             "Axes of random mirroring, of z, y, x. Leave an axis out where sides matter (left, right)")
      .number("noise_std", o.noise_std, {.min = 0, .max = 1e6},
              "Standard deviation of added Gaussian noise, in normalised units; 0: off")
      .numbers("brightness", o.brightness, {.min = 0, .max = 1e6},
               "Range of a factor on each channel; half the draws lie below 1 where it spans 1; null: off")
      .group("probability", o.probability, "How often each change is made")
      .check([&o](ErrorList& errors) {
        check_axes(o.mirror, "mirror", errors);
        check_range(o.brightness, "brightness", errors);
      });
}

Fields fields(PatchOptions& o) {
  return Fields()
      .integers("size", o.size, {.min = 1, .max = kMaxEdge},
                "Size of a training patch and of a prediction window: z, y, x", "voxels")
      .number("foreground", o.foreground, {.min = 0, .max = 1},
              "Part of each batch whose patches are centred on a foreground voxel")
      .flag("class_first", o.class_first,
            "Choose the class of that voxel first, all classes of the case alike; else any foreground voxel "
            "alike");
}

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
      .check([&o](ErrorList& errors) {
        const std::span<const MetricRow> known = metric_table();
        for (const std::string& metric : o.metrics)
          if (std::none_of(known.begin(), known.end(), [&](const auto& row) { return row.name == metric; }))
            errors.rule(
                "metrics",
                fmt::format("got '{}', expected dice, iou, hd, hd95, hd95_pooled, assd or nsd", metric));
      });
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

std::vector<int> axes_of(const std::vector<std::string>& names) {
  std::vector<int> axes;
  for (const std::string& name : names) {
    check_internal(name == "z" || name == "y" || name == "x", "an axis name other than z, y, x");
    axes.push_back(name == "z" ? 0 : name == "y" ? 1 : 2);
  }
  return axes;
}

}  // namespace tandem

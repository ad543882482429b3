// Descriptions of the data options and the rules between them.
#include "data/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "core/base/error.h"
#include "core/config/numbers.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxClasses = 255;  // index 255 is kIgnoredClass

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

void check_regions(const DataOptions& options, const std::map<std::int64_t, std::string>& owner,
                   ErrorList& errors) {
  for (const LabelClass& region : options.regions)
    for (const std::int64_t value : region.values)
      if (!owner.contains(value) || value == options.labels.front().values.front())
        errors.rule("regions", fmt::format("got value {} in '{}', expected a foreground value of data.labels",
                                           value, region.name));
  if (!options.region_values.empty() && options.region_values.size() != options.regions.size())
    errors.rule("region_values", fmt::format("got {} values, expected one for each of {} regions",
                                             options.region_values.size(), options.regions.size()));
  for (const std::int64_t value : options.region_values)
    if (!owner.contains(value))
      errors.rule("region_values", fmt::format("got {}, expected a value of data.labels", value));
}

void check_labels(const DataOptions& options, ErrorList& errors) {
  if (options.labels.empty()) {
    if (options.format != "nnunet")
      errors.rule("labels", "got no classes, expected {background: 0, name: value, ...}");
    return;
  }
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
  if (options.ignore_label && owner.contains(*options.ignore_label))
    errors.rule("ignore_label", fmt::format("got {}, which is '{}' too, expected a value of no class",
                                            *options.ignore_label, owner.at(*options.ignore_label)));
  check_regions(options, owner, errors);
}

// keep, or [z, y, x].
void read_spacing(const ConfigNode& node, ErrorList& errors, std::optional<std::array<double, 3>>& spacing) {
  constexpr const char* kExpected = "keep, or three voxel sizes from 0.001 to 1000: [z, y, x]";
  if (node.is_scalar() && node.text() == "keep") return spacing.reset();
  if (!node.is_list() || node.items().size() != 3) return errors.wrong(node, kExpected);
  std::array<double, 3> read{};
  for (std::size_t i = 0; i < 3; ++i) {
    const ConfigNode& item = node.items()[i];
    const std::optional<double> size = item.is_scalar() ? read_number(item.text()).value : std::nullopt;
    if (!size || !(*size >= 1e-3 && *size <= 1e3)) return errors.wrong(node, kExpected);
    read[i] = *size;
  }
  spacing = read;
}

ConfigNode write_spacing(const std::optional<std::array<double, 3>>& spacing) {
  if (!spacing) return ConfigNode::scalar("keep");
  ConfigNode list = ConfigNode::list();
  for (const double size : *spacing) list.append(ConfigNode::scalar(format_number(size)));
  return list;
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

// 0.05, [0, 0.1], or 0 and null for none.
void read_noise(const ConfigNode& node, ErrorList& errors, std::optional<std::array<double, 2>>& value) {
  const std::vector<ConfigNode> items = node.is_list() ? node.items() : std::vector<ConfigNode>{node};
  std::array<double, 2> range{};
  bool good = node.is_scalar() || (node.is_list() && items.size() == 2);
  for (std::size_t i = 0; good && i < 2; ++i) {
    const ConfigNode& item = items[std::min(i, items.size() - 1)];
    const std::optional<double> number =
        item.is_scalar() && !item.quoted() ? read_number(item.text()).value : std::nullopt;
    good = number && *number >= 0 && *number <= 1e6;
    if (good) range[i] = *number;
  }
  if (!node.is_null() && (!good || range[0] > range[1]))
    return errors.wrong(node, "a number >= 0 and <= 1.0e+06, or a lower and a higher one as [0, 0.1]");
  value = range[1] > 0 ? std::optional(range) : std::nullopt;
}

ConfigNode write_noise(const std::optional<std::array<double, 2>>& value) {
  if (!value || (*value)[0] == (*value)[1]) return ConfigNode::scalar(format_number(value ? (*value)[0] : 0));
  ConfigNode list = ConfigNode::list();
  for (const double number : *value) list.append(ConfigNode::scalar(format_number(number)));
  return list;
}

}  // namespace

Fields fields(NormalizeOptions& o) {
  return Fields()
      .integer("channel", o.channel, {.min = 0, .max = 1024}, "Channel of the image")
      .choice(
          "kind", o.kind,
          {{"zscore", NormalizeKind::kZscore},
           {"ct", NormalizeKind::kCt},
           {"minmax", NormalizeKind::kMinmax},
           {"percentile", NormalizeKind::kPercentile},
           {"none", NormalizeKind::kNone}},
          "zscore: by mean and standard deviation of the volume, after clip; ct: by mean and std "
          "given here, or those of the foreground of the training set; minmax: to [0, 1]; percentile: the "
          "volume's percentiles 0.5 and 99.5 to 0 and 1, limited there; none: as it is")
      .numbers("clip", o.clip, {},
               "Values are limited to this range first; ct without numbers: percentiles 0.5 and 99.5 of the "
               "training "
               "set's foreground")
      .number("mean", o.mean, {}, "Subtracted; null: of the training set's foreground")
      .number("std", o.std, {.min = 0, .exclusive_min = true},
              "Divided by; null: of the training set's foreground")
      .flag("masked", o.masked,
            "Use only voxels that are not 0 in every channel (with the holes between them); the others are 0 "
            "afterwards and stay 0 through augmentation")
      .only_for({"mean", "std"}, "kind", {"ct"})
      .only_for({"masked"}, "kind", {"zscore", "minmax", "percentile"})
      .check([&o](ErrorList& errors) {
        check_range(o.clip, "clip", errors);
        if (o.mean.has_value() != o.std.has_value())
          errors.rule("mean", "got one of mean and std, expected both or neither");
      });
}

namespace {

// What the labels mean, and which cases are for what.
Fields& add_labels(Fields& fields, DataOptions& o) {
  return fields
      .custom(
          "labels", "map of name: value or list of values",
          [&o](const ConfigNode& node, ErrorList& errors) { read_labels(node, errors, o.labels); },
          [&o] { return write_labels(o.labels); },
          "Classes in order, background first; several values of the files may form one class")
      .choice("other_labels", o.other_labels,
              {{"error", OtherLabels::kError}, {"background", OtherLabels::kBackground}},
              "What values that no class names are")
      .integer("ignore_label", o.ignore_label, {.min = INT32_MIN, .max = INT32_MAX},
               "Value of voxels that nobody labelled: in no loss and no score; null: none")
      .custom(
          "regions", "map of name: value or list of values, or null",
          [&o](const ConfigNode& node, ErrorList& errors) {
            if (node.is_null())
              o.regions.clear();
            else
              read_labels(node, errors, o.regions);
          },
          [&o] { return o.regions.empty() ? ConfigNode() : write_labels(o.regions); },
          "Targets that may overlap, each with its own output; values are those of labels; null: labels are "
          "the targets")
      .integers("region_values", o.region_values, {.min = INT32_MIN, .max = INT32_MAX},
                "What a prediction holds for each region, later ones over earlier ones (nnU-Net's "
                "regions_class_order), values of labels; empty: the one value that no later region "
                "has, else the first")
      .group("split", o.split, "Division of data.train into training and validation");
}

// What becomes of a case before training.
Fields& add_preparation(Fields& fields, DataOptions& o) {
  return fields
      .choice("orientation", o.orientation,
              {{"canonical", Orientation::kCanonical}, {"keep", Orientation::kKeep}},
              "Axes of NIfTI images; canonical: turned so that x runs right, y front, z up; keep: as stored")
      .custom(
          "spacing", "keep, or a list of 3 numbers",
          [&o](const ConfigNode& node, ErrorList& errors) { read_spacing(node, errors, o.spacing); },
          [&o] { return write_spacing(o.spacing); },
          "Voxel size to which every case is resampled, z y x (cubic splines; labels linear per class); "
          "predictions go back to the file's own grid",
          "mm")
      .flag("crop_nonzero", o.crop_nonzero,
            "Cut each case to the box of its voxels that are not 0 in every channel")
      .list("normalize", o.normalize,
            "How each channel is normalised; channels not named: zscore without clip");
}

}  // namespace

Fields fields(DataOptions& o) {
  Fields description =
      Fields()
          .choice(
              "format", o.format, {"hdf5", "nifti", "nnunet"},
              "Form of the files; hdf5: one case each, as `tandem data convert` writes them; nifti: "
              "images with their label maps; nnunet: a raw data folder with dataset.json (docs/formats.md)")
          .paths("train", o.train, "Training cases: files, folders or globs")
          .paths("validation", o.validation, "Cases of validation and `tandem eval`")
          .paths("test", o.test, "Cases kept apart; `tandem data check` looks for them in the other two");
  return add_preparation(add_labels(description, o), o)
      .choice(
          "cache", o.cache,
          {{"ram", CacheKind::kRam}, {"disk", CacheKind::kDisk}, {"none", CacheKind::kNone}},
          "Where prepared training cases are kept; ram: in memory, those that do not fit on disk; disk: in "
          "bricks on disk, made once and shared by runs; none: patches are read from case files (other "
          "cases: ram)")
      .bytes("cache_bytes", o.cache_bytes, {.min = 0},
             "Most memory for cached cases, and never more than a quarter of what is free")
      .path("cache_folder", o.cache_folder,
            "Folder of the disk cache; null: .tandem-cache beside the first training case, or a temporary "
            "folder")
      .integer_or_auto("workers", o.workers, {.min = 0, .max = 256},
                       "Loader threads; 0: load in the training thread")
      .integer("prefetch", o.prefetch, {.min = 1, .max = 1024}, "Batches prepared ahead", "batches")
      .check(
          [&o](ErrorList& errors) {
            if (o.split.active() && !(o.validation.empty() && o.test.empty()))
              errors.rule("split", "got a split and data.validation or data.test, expected one of them");
          },
          {"split", "validation", "test"})
      .check([&o](ErrorList& errors) { check_labels(o, errors); },
             {"format", "labels", "ignore_label", "regions", "region_values"})
      .check([&o](ErrorList& errors) { check_channels(o, errors); }, {"normalize"});
}

Fields fields(AugmentOptions& o) {
  return Fields()
      .texts("mirror", o.mirror,
             "Axes of random mirroring, of z, y, x. Leave an axis out where sides matter (left, right)")
      .number("rotate_deg", o.rotate_deg, {.min = 0, .max = 180},
              "Largest rotation about each axis; about z only where the patch is flat (longest edge > 3 "
              "times z); 0: off",
              "degrees")
      .numbers("scale", o.scale, {.min = 0.1, .max = 10},
               "Range of a factor on the field of view, one for all axes; null: off")
      .numbers("elastic", o.elastic, {.min = 0, .max = 4096},
               "Standard deviation of random shifts, and distance of the points that are shifted; null: off",
               "voxels")
      .custom(
          "noise_std", "number or list of numbers",
          [&o](const ConfigNode& node, ErrorList& errors) { read_noise(node, errors, o.noise_std); },
          [&o] { return write_noise(o.noise_std); },
          "Standard deviation of added Gaussian noise, in normalised units: always this one, or drawn from "
          "a range as [0, 0.1] for each channel; 0: off")
      .numbers("brightness", o.brightness, {.min = 0, .max = 1e6},
               "Range of a factor on each channel; half the draws lie below 1 where it spans 1; null: off")
      .numbers("blur_sigma", o.blur_sigma, {.min = 0, .max = 16, .exclusive_min = true},
               "Range of the width of a Gaussian blur; null: off", "voxels")
      .numbers(
          "contrast", o.contrast, {.min = 0, .max = 1e6},
          "Range of a factor on the difference to the channel's mean, split at 1 as brightness; null: off")
      .numbers("gamma", o.gamma, {.min = 0.01, .max = 100},
               "Range of the exponent on intensities scaled to [0, 1], split at 1; mean and deviation stay; "
               "null: off")
      .numbers("low_resolution", o.low_resolution, {.min = 0.05, .max = 1},
               "Range of the zoom of a channel that is shrunk and enlarged again; null: off")
      .group("probability", o.probability, "How often each change is made")
      .check([&o](ErrorList& errors) { check_axes(o.mirror, "mirror", errors); }, {"mirror"})
      .check(
          [&o](ErrorList& errors) {
            for (const auto& [range, key] :
                 {std::pair(&o.brightness, "brightness"), std::pair(&o.scale, "scale"),
                  std::pair(&o.blur_sigma, "blur_sigma"), std::pair(&o.contrast, "contrast"),
                  std::pair(&o.gamma, "gamma"), std::pair(&o.low_resolution, "low_resolution")})
              check_range(*range, key, errors);
            if (o.elastic && !((*o.elastic)[1] >= 2))
              errors.rule("elastic",
                          fmt::format("got points {} voxels apart, expected at least 2", (*o.elastic)[1]));
          },
          {"brightness", "scale", "blur_sigma", "contrast", "gamma", "low_resolution", "elastic"});
}

}  // namespace tandem

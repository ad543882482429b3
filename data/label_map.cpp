// Label values to class indices.
#include "data/label_map.h"

#include <algorithm>

#include "core/base/counted.h"
#include "core/base/error.h"

namespace tandem {
namespace {

constexpr std::int32_t kSmallValues = 256;
constexpr std::size_t kShownValues = 8;

}  // namespace

LabelMap::LabelMap(const std::vector<LabelClass>& classes, OtherLabels other)
    : small_(kSmallValues, -1), other_is_background_(other == OtherLabels::kBackground) {
  if (classes.empty() || classes.size() > kIgnoredClass)
    throw Error(ErrorKind::kConfig,
                fmt::format("[data] labels: got {} classes, expected 1 to 255", classes.size()),
                "Set data.labels: {background: 0, name: value, ...}.");
  for (std::size_t c = 0; c < classes.size(); ++c) {
    names_.push_back(classes[c].name);
    values_.push_back(classes[c].values);
    for (const std::int64_t value : classes[c].values) {
      class_of_[static_cast<std::int32_t>(value)] = static_cast<std::uint8_t>(c);
      if (value >= 0 && value < kSmallValues)
        small_[static_cast<std::size_t>(value)] = static_cast<std::int16_t>(c);
    }
  }
}

LabelMap::LabelMap(const DataOptions& data) : LabelMap(data.labels, data.other_labels) {
  if (data.ignore_label) {
    ignores_ = true;
    class_of_[static_cast<std::int32_t>(*data.ignore_label)] = kIgnoredClass;
    if (*data.ignore_label >= 0 && *data.ignore_label < kSmallValues)
      small_[static_cast<std::size_t>(*data.ignore_label)] = kIgnoredClass;
  }
  region_names_ = {"background"};
  for (std::size_t r = 0; r < data.regions.size(); ++r) {
    region_names_.push_back(data.regions[r].name);
    regions_.emplace_back(names_.size());
    std::vector<std::int64_t> own;
    for (const std::int64_t value : data.regions[r].values) {
      if (const auto cls = class_of(static_cast<std::int32_t>(value)))
        regions_[r][static_cast<std::size_t>(*cls)] = true;
      const bool later =
          std::any_of(data.regions.begin() + static_cast<std::ptrdiff_t>(r) + 1, data.regions.end(),
                      [&](const LabelClass& region) {
                        return std::count(region.values.begin(), region.values.end(), value) > 0;
                      });
      if (!later) own.push_back(value);
    }
    const std::int64_t written = !data.region_values.empty() ? data.region_values[r]
                                 : own.size() == 1           ? own.front()
                                                             : data.regions[r].values.front();
    const std::optional<std::int64_t> cls = class_of(static_cast<std::int32_t>(written));
    if (!cls)
      throw Error(ErrorKind::kConfig,
                  fmt::format("[data] regions: got value {} for region '{}', expected a value of data.labels",
                              written, data.regions[r].name),
                  "Set data.region_values.");
    region_classes_.push_back(static_cast<std::int32_t>(*cls));
  }
}

bool LabelMap::in_region(std::int64_t region, std::int64_t cls) const {
  const std::vector<bool>& classes = regions_.at(static_cast<std::size_t>(region));
  return cls >= 0 && cls < static_cast<std::int64_t>(classes.size()) &&
         classes[static_cast<std::size_t>(cls)];
}

std::optional<std::int64_t> LabelMap::class_of(std::int32_t value) const {
  const auto entry = class_of_.find(value);
  return entry == class_of_.end() ? std::nullopt : std::optional<std::int64_t>(entry->second);
}

void LabelMap::apply(std::span<const std::int32_t> values, std::span<std::uint8_t> classes,
                     UnknownLabels& unknown) const {
  check_internal(values.size() == classes.size(), "LabelMap::apply: sizes differ");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int32_t value = values[i];
    int found = -1;
    if (value >= 0 && value < kSmallValues) {
      found = small_[static_cast<std::size_t>(value)];
    } else if (const auto entry = class_of_.find(value); entry != class_of_.end()) {
      found = entry->second;
    }
    if (found < 0 && !other_is_background_) ++unknown[value];
    classes[i] = static_cast<std::uint8_t>(std::max(found, 0));
  }
}

void LabelMap::expect_none(const UnknownLabels& unknown, const std::string& file,
                           const std::optional<Index3>& first) {
  if (unknown.empty()) return;
  std::string text;
  std::size_t shown = 0;
  for (const auto& [value, count] : unknown) {
    if (shown++ == kShownValues) break;
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", value, counted(count, "voxel"));
  }
  if (unknown.size() > kShownValues) text += fmt::format(" and {} more", unknown.size() - kShownValues);
  if (first) text += fmt::format(", the first at {} (z, y, x)", to_string(*first));
  throw Error(
      ErrorKind::kData,
      fmt::format("[labels] {}: /label: got values {}, expected only those of data.labels", file, text),
      "Name them in data.labels, or set data.other_labels: background.");
}

std::vector<std::int32_t> LabelMap::output_values() const {
  const bool single =
      std::all_of(values_.begin(), values_.end(), [](const auto& list) { return list.size() == 1; });
  std::vector<std::int32_t> result;
  for (std::size_t c = 0; c < values_.size(); ++c)
    result.push_back(static_cast<std::int32_t>(single ? values_[c].front() : static_cast<std::int64_t>(c)));
  return result;
}

}  // namespace tandem

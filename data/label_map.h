// Values of label files -> class indices, and back for predictions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/options.h"
#include "data/volume.h"

namespace tandem {

// Voxels of values that no class names.
using UnknownLabels = std::map<std::int32_t, std::int64_t>;

// Voxels of data.ignore_label: among class indices, and in the labels of a sample.
inline constexpr std::uint8_t kIgnoredClass = 255;
inline constexpr std::int32_t kIgnoredLabel = -1;

class LabelMap {
 public:
  // With ignore_label and regions.
  explicit LabelMap(const DataOptions& data);
  // `classes` as checked by fields(DataOptions&): at most 255, no value twice.
  explicit LabelMap(const std::vector<LabelClass>& classes, OtherLabels other = OtherLabels::kError);

  std::int64_t classes() const { return static_cast<std::int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }
  bool ignores() const { return ignores_; }
  // Regions: 0 if labels are the targets.
  std::int64_t regions() const { return static_cast<std::int64_t>(regions_.size()); }
  bool in_region(std::int64_t region, std::int64_t cls) const;
  // The class that a prediction has where this is the last region that holds a voxel: that of its
  // region_values, or of the one value that no later region has.
  std::int32_t region_class(std::int64_t region) const {
    return region_classes_.at(static_cast<std::size_t>(region));
  }
  // "background" and the targets: classes, or regions.
  const std::vector<std::string>& output_names() const { return regions_.empty() ? names_ : region_names_; }

  // The class of a value; nothing if no class names it.
  std::optional<std::int64_t> class_of(std::int32_t value) const;
  // values -> class indices (same size); data.ignore_label -> kIgnoredClass. Values that no class names
  // become 0 and, unless they are declared background, are counted in `unknown`.
  void apply(std::span<const std::int32_t> values, std::span<std::uint8_t> classes,
             UnknownLabels& unknown) const;
  // Error{kData} naming file, values, counts and, where it is known, the first voxel, if there are any.
  static void expect_none(const UnknownLabels& unknown, const std::string& file,
                          const std::optional<Index3>& first = std::nullopt);

  // What a prediction file holds for each class: the class's value where every class has exactly one, else
  // (merged classes) the class index.
  std::vector<std::int32_t> output_values() const;

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>> values_;
  std::unordered_map<std::int32_t, std::uint8_t> class_of_;
  std::vector<std::int16_t> small_;  // class of values 0..255, -1: none
  bool other_is_background_, ignores_ = false;
  std::vector<std::string> region_names_;   // after "background"
  std::vector<std::vector<bool>> regions_;  // [region][class]
  std::vector<std::int32_t> region_classes_;
};

}  // namespace tandem

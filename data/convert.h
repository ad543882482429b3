// `tandem data convert`: NIfTI images and labels become one case file: canonical RAS, then index ranges of
// named axes, then mirrored. The command line itself is in apps/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/volume.h"

namespace tandem {

// A half-open range of indices along an axis of the canonical volume.
struct Region {
  int axis = 0;  // 0 z, 1 y, 2 x
  std::int64_t begin = 0, end = 0;
};

struct ConvertOptions {
  std::vector<std::string> images;  // files on one grid; their channels in this order
  std::string label;                // "" : none
  std::vector<Region> regions;
  std::vector<int> flips;  // axes as in Region, mirrored after the regions were cut
  std::string output;
  std::string case_id;  // "": the first image's name without extensions, with the region and flips
  bool overwrite = false;
  std::optional<std::int64_t>
      nan_value;  // takes the place of voxels that are not finite; else they are refused
};

struct ConvertReport {
  std::string case_id;
  Geometry geometry;
  std::int64_t channels = 1;
  std::map<std::int32_t, std::int64_t> label_counts;  // voxels per stored value
};

// "x=0:61" -> Region; Error{kUsage} naming what was got otherwise.
Region parse_region(const std::string& text);
// "x" -> 2, "y" -> 1, "z" -> 0; Error{kUsage} otherwise.
int parse_axis(const std::string& text);

// Throws Error{kUsage} for an output that exists (without overwrite), is an input or has another ending than
// a case file, or a region outside; Error{kData} for files that cannot be read, do not lie on one grid
// (shapes differ, or affines by more than 1e-3 mm) or hold voxels that are not finite.
ConvertReport convert_case(const ConvertOptions& options);

}  // namespace tandem

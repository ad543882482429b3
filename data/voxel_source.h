// Where voxels of a case come from: a case file read box by box, or volumes in memory (NIfTI images).
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/case_list.h"
#include "data/options.h"
#include "data/volume.h"

namespace tandem {

struct CaseInfo {
  std::string file, id;
  Geometry geometry;
  std::int64_t channels = 1;
  std::vector<std::string> channel_names;
  bool has_labels = false, has_weights = false;
};

// Any thread may read. Boxes must lie inside the volume.
class VoxelSource {
 public:
  virtual ~VoxelSource() = default;
  virtual const CaseInfo& info() const = 0;
  // Fills values [C, size z, y, x] of the box at `begin`.
  virtual void read_image(const Index3& begin, const Index3& size, std::span<float> values) const = 0;
  // Fills values [size z, y, x]; Error{kData} if the case has no labels.
  virtual void read_labels(const Index3& begin, const Index3& size, std::span<std::int32_t> values) const = 0;
  // Fills values [size z, y, x] of the loss weights; 1 where the case has none.
  virtual void read_weights(const Index3&, const Index3&, std::span<float> values) const {
    std::fill(values.begin(), values.end(), 1.0f);
  }
  // The image is not read again; its memory may go.
  virtual void release_image() {}
};

// Error{kData} naming `other_file` unless both grids have one shape and affines that differ by at most 1e-3
// mm.
void expect_same_grid(const Geometry& grid, const Geometry& other, const std::string& file,
                      const std::string& other_file);

// The channels of NIfTI files on one grid, each turned to RAS (kCanonical) or as stored.
Volume read_channels(const std::vector<std::string>& files, Orientation orientation);
// A label map on the grid of `image` (Error{kData} if it lies elsewhere), which was read from `image_file`.
LabelVolume read_labels_of(const std::string& file, const Volume& image, const std::string& image_file,
                           Orientation orientation);

// What is said of the case by its headers alone.
CaseInfo read_case_info(const CaseEntry& entry, Orientation orientation = Orientation::kCanonical);

// A case file, or NIfTI images with their label map, which are read whole.
std::unique_ptr<VoxelSource> open_case(const CaseEntry& entry,
                                       Orientation orientation = Orientation::kCanonical);

}  // namespace tandem

// Where voxels of a case come from: a case file read box by box, or a volume in memory (a NIfTI image to be
// predicted).
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/volume.h"

namespace tandem {

struct CaseInfo {
  std::string file, id;
  Geometry geometry;
  std::int64_t channels = 1;
  std::vector<std::string> channel_names;
  bool has_labels = false;
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
};

// The case of `path`: a case file (.h5, .hdf, .hdf5, .hd5), or a NIfTI image (.nii, .nii.gz) turned to RAS,
// which has no labels. Error{kData} for other names.
std::unique_ptr<VoxelSource> open_voxel_source(const std::filesystem::path& path);

// The files that `patterns` name: a file; the case files of a folder, sorted; a glob (* ? [...]), sorted.
// Error{kData} for a pattern that names nothing.
std::vector<std::string> expand_case_files(const std::vector<std::string>& patterns);

}  // namespace tandem

// One case on disk: an HDF5 file with /raw, /label and the attributes that carry its geometry. Boxes are read
// without loading the file. The layout is pytorch-3dunet's (research of the field: /raw, /label) plus our
// attributes; foreign files without them are accepted.
//
//   /raw    (Z,Y,X) or (C,Z,Y,X), any integer or float type      /label  (Z,Y,X), any integer type; optional
//   /weight (Z,Y,X), the weight of each voxel in the loss; optional
//   on /raw: spacing (z, y, x; mm), affine 4x4 (voxel x, y, z -> mm RAS), case_id, channel_names, and
//   source_shape, source_affine, source_axes, source_codes, source_pixdim, source_quatern, source_srow: the
//   grid of the file it was made from, so that a prediction is written back there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/hdf5_file.h"
#include "data/voxel_source.h"

namespace tandem {

// Any thread may read.
class CaseFile final : public VoxelSource {
 public:
  // Checks both datasets and all attributes; Error{kData} naming the file, the object, got and expected.
  explicit CaseFile(const std::filesystem::path& path, const Hdf5Limits& limits = {});

  const CaseInfo& info() const override { return info_; }
  // Fills values [C, size z, y, x] of the box at `begin`, which must lie inside.
  void read_image(const Index3& begin, const Index3& size, std::span<float> values) const override;
  // Fills values [size z, y, x]; Error{kData} if the case has no labels, or naming the first voxel whose
  // label does not fit into 32 bits.
  void read_labels(const Index3& begin, const Index3& size, std::span<std::int32_t> values) const override;
  void read_weights(const Index3& begin, const Index3& size, std::span<float> values) const override;

 private:
  Hdf5File file_;
  CaseInfo info_;
  bool channel_axis_ = false;
  bool wide_labels_ = false;  // of a type that does not fit into int32
};

// Writes the place of `geometry` in space as attributes of `object`: spacing, affine and source_*.
void write_geometry(Hdf5File& file, const std::string& object, const Geometry& geometry);

// Writes a case (atomically): /raw as i16 if all values are whole and fit, else f32; /label (`labels` may be
// null) in the smallest of u8, i16, i32; chunks of 32^3, shuffle, gzip level 1. `channel_names` may be empty.
void write_case(const std::filesystem::path& path, const std::string& id, const Volume& image,
                const LabelVolume* labels, const std::vector<std::string>& channel_names = {});

}  // namespace tandem

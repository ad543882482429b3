// Volumes: voxel values together with where they lie in space and on the grid of the file they came from.
// Every operation that moves voxels returns values and geometry in one piece. Reading and writing files is
// elsewhere.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

// Sizes and indices are z, y, x everywhere; affines act on (x, y, z, 1).
using Index3 = std::array<std::int64_t, 3>;
using Affine =
    std::array<double, 16>;  // 4x4, row major: voxel (x, y, z, 1) -> mm in RAS (+x right, +y front, +z up)

inline std::int64_t voxel_count(const Index3& shape) { return shape[0] * shape[1] * shape[2]; }

// "[z, y, x]"
std::string to_string(const Index3& index);

// Diagonal affine of `spacing_mm` (z, y, x) with its origin at voxel 0.
Affine affine_of_spacing(const std::array<double, 3>& spacing_mm);

// The fields of a NIfTI-1 header that place an image in space, kept as they were so that a result is written
// back with the very same ones.
struct NiftiSpace {
  std::int16_t sform_code = 0, qform_code = 0;
  std::uint8_t xyzt_units = 2;              // 2: mm
  std::array<float, 4> pixdim{1, 1, 1, 1};  // qfac, then x, y, z
  std::array<float, 6> quatern{};           // b, c, d, offset x, y, z
  std::array<float, 12> srow{};             // rows x, y, z
  friend bool operator==(const NiftiSpace&, const NiftiSpace&) = default;
};

// Fields that say `affine` (as sform, code 1: scanner) for a file that had none of its own.
NiftiSpace nifti_space_of(const Affine& affine);

// The grid of the file a volume was read from.
struct SourceGrid {
  Index3 shape{};
  Affine affine{};
  NiftiSpace space;
};

// Where a volume's grid lies: for each of its axes (z, y, x) the axis of the source grid it runs along, in
// which direction and from where: source index[axis] = offset + sign * index. Integers, so that no chain of
// operations loses anything; the affine follows from the source's.
struct AxisMap {
  int axis = 0;
  int sign = 1;
  std::int64_t offset = 0;
  friend bool operator==(const AxisMap&, const AxisMap&) = default;
};

class Geometry {
 public:
  Geometry() = default;
  // The source grid itself.
  explicit Geometry(SourceGrid source);
  // A grid within (or beyond) `source`; used by readers that stored one. Error{kData} naming `where` if
  // `axes` is no signed permutation.
  Geometry(SourceGrid source, const Index3& shape, const std::array<AxisMap, 3>& axes,
           const std::string& where);

  const Index3& shape() const { return shape_; }
  const SourceGrid& source() const { return source_; }
  const std::array<AxisMap, 3>& axes() const { return axes_; }
  Affine affine() const;
  std::array<double, 3> spacing_mm() const;  // z, y, x: lengths of the affine's columns
  // Where +x, +y and +z of the array point, as nibabel's aff2axcodes: "RAS" for a canonical volume.
  std::string orientation() const;
  // Largest |cosine| between two voxel axes: 0 for an orthogonal grid.
  double shear() const;
  bool on_source_grid() const;  // same shape, order and direction as the file

  Geometry canonical() const;        // axes permuted and mirrored so that orientation() is "RAS"
  Geometry flipped(int axis) const;  // mirrored along array axis 0 (z), 1 (y) or 2 (x); the affine follows
  Geometry cropped(const Index3& begin, const Index3& shape) const;  // Error{kUsage} unless it lies inside

 private:
  SourceGrid source_;
  Index3 shape_{};
  std::array<AxisMap, 3> axes_{};
};

// An image: values [C, Z, Y, X].
struct Volume {
  Geometry geometry;
  std::int64_t channels = 1;
  std::vector<float> values;
};

// A label map: values [Z, Y, X].
struct LabelVolume {
  Geometry geometry;
  std::vector<std::int32_t> values;
};

// The same voxels on another grid of the same source (Geometry::canonical, flipped, cropped, or the source
// grid); voxels that `volume` does not hold get `fill`. Error{kInternal} if the two grids have different
// sources.
Volume on_grid(const Volume& volume, const Geometry& grid, float fill = 0);
LabelVolume on_grid(const LabelVolume& volume, const Geometry& grid, std::int32_t fill = 0);

}  // namespace tandem

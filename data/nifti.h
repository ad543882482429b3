// NIfTI-1 and NIfTI-2 files (.nii, .nii.gz): volumes with their place in space, read from and written to the
// grid of the file. Own reader after the standards (nifti1.h, nifti2.h, R. Cox et al.); orientation is left
// as stored (Geometry::canonical).
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/volume.h"

namespace tandem {

// What a reader accepts before it allocates.
struct NiftiLimits {
  std::int64_t voxels = std::int64_t{1} << 31;  // all channels together
};

// Reads an image of 1 to 7 dimensions as values [C, Z, Y, X] (dimensions 4 to 7 become channels): both byte
// orders, u8 i8 u16 i16 u32 i32 u64 i64 f32 f64, value = stored * scl_slope + scl_inter (slope 0: as stored).
// Affine: sform if its code > 0, else qform if its code > 0, else voxel sizes with the origin at voxel 0;
// units become mm. Throws Error{kData} naming file, field, what was found and what was expected; shear of
// 1e-2 and above is refused, less is a warning.
Volume read_nifti(const std::filesystem::path& path, const NiftiLimits& limits = {});

// Grid and channels of a file, from its header; errors as read_nifti.
struct NiftiInfo {
  Geometry geometry;
  std::int64_t channels = 1;
};
NiftiInfo read_nifti_info(const std::filesystem::path& path, const NiftiLimits& limits = {});

// As read_nifti, for one-channel files whose values are whole numbers in the range of int32; Error{kData}
// naming the first voxel that is none.
LabelVolume read_nifti_labels(const std::filesystem::path& path, const NiftiLimits& limits = {});

// Writes the volume on its source grid (voxels outside the volume: 0) with codes, units and orientation
// fields of the file it came from. Labels as u8 if all are in 0..255, else u16 (0..65535), i16 or i32; images
// as f32. NIfTI-1, or NIfTI-2 where an axis has more than 32767 voxels. `.gz` at the end of the name
// compresses. Atomic (core/base/files.h); Error{kResource} if the disk refuses.
void write_nifti(const std::filesystem::path& path, const LabelVolume& labels);
void write_nifti(const std::filesystem::path& path, const Volume& image);

}  // namespace tandem

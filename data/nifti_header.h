// The header of a NIfTI-1 (348 bytes) or NIfTI-2 file (540) and the affine it describes. Only data/nifti*.cpp
// need this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/number_type.h"
#include "data/volume.h"

namespace tandem {

inline constexpr std::size_t kNiftiHeaderBytes = 348, kNifti2HeaderBytes = 540;
inline constexpr std::size_t kNiftiDataOffset = 352;  // header, then four bytes that announce extensions

struct NiftiHeader {
  bool swapped = false;  // the file has the other byte order
  NumberType type = NumberType::kU8;
  Index3 shape{};             // z, y, x
  std::int64_t channels = 1;  // product of dimensions 4 to 7
  std::size_t data_offset = kNiftiDataOffset;
  double slope = 1, inter = 0;
  NiftiSpace space;

  std::int64_t value_count() const { return channels * voxel_count(shape); }
};

// Size of the header that begins with `bytes` (at least 4): 348 or 540; Error{kData} for anything else.
std::size_t nifti_header_bytes(std::span<const std::byte> bytes, const std::string& file);

// Checks every field that decides about memory or space; `bytes` is a whole header, `file` names the file in
// errors (Error{kData}). NIfTI-2's doubles of the orientation are rounded to float.
NiftiHeader parse_nifti_header(std::span<const std::byte> bytes, const std::string& file,
                               std::int64_t max_voxels);

// Voxel (x, y, z) -> mm RAS by the rules of read_nifti. Error{kData} if the chosen form is not finite,
// singular or sheared by 1e-2 or more.
Affine nifti_affine(const NiftiHeader& header, const std::string& file);

// Header in this machine's byte order plus the four extension bytes: NIfTI-1, or NIfTI-2 if a size is above
// 32767.
std::vector<std::byte> encode_nifti_header(const NiftiHeader& header);

}  // namespace tandem

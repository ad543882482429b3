// The 348 bytes of a NIfTI-1 header and the affine they describe. Only data/nifti*.cpp need this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/number_type.h"
#include "data/volume.h"

namespace tandem {

inline constexpr std::size_t kNiftiHeaderBytes = 348;
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

// Checks every field that decides about memory or space; `file` names the file in errors (Error{kData}).
NiftiHeader parse_nifti_header(std::span<const std::byte, kNiftiHeaderBytes> bytes, const std::string& file,
                               std::int64_t max_voxels);

// Voxel (x, y, z) -> mm RAS by the rules of read_nifti. Error{kData} if the chosen form is not finite,
// singular or sheared by 1e-2 or more.
Affine nifti_affine(const NiftiHeader& header, const std::string& file);

// Header in this machine's byte order plus the four extension bytes.
std::array<std::byte, kNiftiDataOffset> encode_nifti_header(const NiftiHeader& header);

}  // namespace tandem

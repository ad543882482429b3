// Parsing, checking and encoding of NIfTI-1 headers (field offsets: nifti1.h of the standard).
#include "data/nifti_header.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/base/error.h"
#include "core/base/log.h"

namespace tandem {
namespace {

constexpr double kMaxShear = 1e-2;
constexpr double kShearWithoutWarning = 1e-4;

enum Offset : std::size_t {
  kSizeofHdr = 0,
  kDim = 40,
  kDatatype = 70,
  kBitpix = 72,
  kPixdim = 76,
  kVoxOffset = 108,
  kSclSlope = 112,
  kSclInter = 116,
  kXyztUnits = 123,
  kQformCode = 252,
  kSformCode = 254,
  kQuatern = 256,
  kSrow = 280,
  kMagic = 344,
};

struct TypeCode {
  std::int16_t code;
  NumberType type;
};
constexpr TypeCode kTypeCodes[] = {{2, NumberType::kU8},    {4, NumberType::kI16},   {8, NumberType::kI32},
                                   {16, NumberType::kF32},  {64, NumberType::kF64},  {256, NumberType::kI8},
                                   {512, NumberType::kU16}, {768, NumberType::kU32}, {1024, NumberType::kI64},
                                   {1280, NumberType::kU64}};

// Reads fields of a header in either byte order.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte, kNiftiHeaderBytes> bytes, bool swapped)
      : bytes_(bytes), swapped_(swapped) {}

  template <class T>
  T get(std::size_t offset, std::size_t index = 0) const {
    std::array<std::byte, sizeof(T)> raw;
    std::memcpy(raw.data(), bytes_.data() + offset + index * sizeof(T), sizeof(T));
    if (swapped_) std::reverse(raw.begin(), raw.end());
    return std::bit_cast<T>(raw);
  }
  template <class T, std::size_t N>
  std::array<T, N> array(std::size_t offset) const {
    std::array<T, N> values;
    for (std::size_t i = 0; i < N; ++i) values[i] = get<T>(offset, i);
    return values;
  }

 private:
  std::span<const std::byte, kNiftiHeaderBytes> bytes_;
  bool swapped_;
};

template <class Got>
[[noreturn]] void reject(const std::string& file, std::string_view field, const Got& got,
                         std::string_view expected) {
  fail(ErrorKind::kData, "[nifti] {}: {}: got {}, expected {}", file, field, got, expected);
}

bool is_swapped(std::span<const std::byte, kNiftiHeaderBytes> bytes, const std::string& file) {
  const auto native = HeaderReader(bytes, false).get<std::int32_t>(kSizeofHdr);
  const auto other = HeaderReader(bytes, true).get<std::int32_t>(kSizeofHdr);
  if (native == 348) return false;
  if (other == 348) return true;
  if (native == 540 || other == 540)
    reject(file, "sizeof_hdr", "540 (NIfTI-2)", "348 (NIfTI-1); save the file as NIfTI-1");
  reject(file, "sizeof_hdr", native, "348 (a NIfTI-1 file)");
}

void parse_dimensions(const HeaderReader& fields, const std::string& file, std::int64_t max_voxels,
                      NiftiHeader& header) {
  const auto rank = fields.get<std::int16_t>(kDim);
  if (rank < 1 || rank > 7) reject(file, "dim[0] (number of dimensions)", rank, "1..7");
  std::array<std::int64_t, 8> dim;
  dim.fill(1);
  __extension__ unsigned __int128 product = 1;
  for (std::size_t i = 1; i <= static_cast<std::size_t>(rank); ++i) {
    dim[i] = fields.get<std::int16_t>(kDim, i);
    if (dim[i] < 1) reject(file, fmt::format("dim[{}]", i), dim[i], "1..32767");
    product *= static_cast<std::uint64_t>(dim[i]);
  }
  if (product > static_cast<std::uint64_t>(max_voxels))
    reject(file, "dim",
           fmt::format("{} x {} x {} x {} x {} x {} x {} voxels", dim[1], dim[2], dim[3], dim[4], dim[5],
                       dim[6], dim[7]),
           fmt::format("at most {} voxels", max_voxels));
  header.shape = {dim[3], dim[2], dim[1]};
  header.channels = dim[4] * dim[5] * dim[6] * dim[7];
}

void parse_values(const HeaderReader& fields, const std::string& file, NiftiHeader& header) {
  const auto code = fields.get<std::int16_t>(kDatatype);
  const auto* known = std::find_if(std::begin(kTypeCodes), std::end(kTypeCodes),
                                   [&](const TypeCode& row) { return row.code == code; });
  if (known == std::end(kTypeCodes))
    reject(file, "datatype", code,
           "2 4 8 16 64 256 512 768 1024 or 1280 (integers and floats of 8 to 64 bits)");
  header.type = known->type;
  const auto bits = fields.get<std::int16_t>(kBitpix);
  const auto expected_bits = static_cast<int>(8 * number_size(header.type));
  if (bits != expected_bits)
    reject(file, "bitpix", bits, fmt::format("{} for datatype {}", expected_bits, code));

  const auto offset = fields.get<float>(kVoxOffset);
  if (!std::isfinite(offset) || offset != std::floor(offset) || offset < 0 || offset > 1e9f ||
      (offset > 0 && offset < static_cast<float>(kNiftiDataOffset)))
    reject(file, "vox_offset", offset, "a whole number from 352 to 1e9");
  header.data_offset = offset > 0 ? static_cast<std::size_t>(offset) : kNiftiDataOffset;

  const auto slope = fields.get<float>(kSclSlope), inter = fields.get<float>(kSclInter);
  if (slope == 0 || std::isnan(slope)) return;  // nibabel writes NaN for "none"
  if (std::isinf(slope)) reject(file, "scl_slope", slope, "a finite number");
  if (!std::isfinite(inter)) reject(file, "scl_inter", inter, "a finite number");
  header.slope = slope;
  header.inter = inter;
}

// Rotation of the unit quaternion (sqrt(1 - b^2 - c^2 - d^2), b, c, d), columns scaled by the voxel sizes.
Affine qform_affine(const NiftiSpace& space, const std::string& file) {
  for (std::size_t i = 1; i < 4; ++i)
    if (!std::isfinite(space.pixdim[i]) || space.pixdim[i] == 0)
      reject(file, fmt::format("pixdim[{}]", i), space.pixdim[i], "a voxel size above 0");
  double b = space.quatern[0], c = space.quatern[1], d = space.quatern[2];
  const double norm2 = b * b + c * c + d * d;
  if (!(norm2 <= 1 + 1e-5))
    reject(file, "quatern_b, c, d", fmt::format("a squared norm of {}", norm2), "at most 1");
  if (norm2 > 1) {
    const double length = std::sqrt(norm2);
    b /= length, c /= length, d /= length;
  }
  const double a = std::sqrt(std::max(0.0, 1 - (b * b + c * c + d * d)));
  const double sx = std::abs(space.pixdim[1]), sy = std::abs(space.pixdim[2]);
  const double sz = std::abs(space.pixdim[3]) * (space.pixdim[0] < 0 ? -1 : 1);  // qfac: 0 counts as 1
  return {(a * a + b * b - c * c - d * d) * sx,
          2 * (b * c - a * d) * sy,
          2 * (b * d + a * c) * sz,
          space.quatern[3],
          2 * (b * c + a * d) * sx,
          (a * a + c * c - b * b - d * d) * sy,
          2 * (c * d - a * b) * sz,
          space.quatern[4],
          2 * (b * d - a * c) * sx,
          2 * (c * d + a * b) * sy,
          (a * a + d * d - c * c - b * b) * sz,
          space.quatern[5],
          0,
          0,
          0,
          1};
}

Affine sform_affine(const NiftiSpace& space) {
  Affine affine{};
  std::copy(space.srow.begin(), space.srow.end(), affine.begin());
  affine[15] = 1;
  return affine;
}

Affine pixdim_affine(const NiftiSpace& space, const std::string& file) {
  for (std::size_t i = 1; i < 4; ++i)
    if (!std::isfinite(space.pixdim[i]) || space.pixdim[i] == 0)
      reject(file, fmt::format("pixdim[{}]", i), space.pixdim[i], "a voxel size above 0");
  log_warning(
      "[nifti] {}: neither sform nor qform is set: its axes are taken as right, front, up with the origin at "
      "voxel 0",
      file);
  return affine_of_spacing({std::abs(space.pixdim[3]), std::abs(space.pixdim[2]), std::abs(space.pixdim[1])});
}

double millimetres_per_unit(std::uint8_t xyzt_units) {
  switch (xyzt_units & 7) {
    case 1:
      return 1000;
    case 3:
      return 0.001;
    default:
      return 1;
  }
}

void check_affine(const Affine& affine, std::string_view form, const std::string& file) {
  for (std::size_t i = 0; i < 12; ++i)
    if (!std::isfinite(affine[i]))
      reject(file, fmt::format("{} row {} column {}", form, i / 4, i % 4), affine[i], "a finite number");
  for (std::size_t c = 0; c < 3; ++c)
    if (!(std::hypot(affine[c], affine[4 + c], affine[8 + c]) > 1e-9))
      reject(file, fmt::format("{} column {}", form, c), "a voxel axis of length 0", "a length above 0");
  SourceGrid grid{{1, 1, 1}, affine, {}};
  const double shear = Geometry(grid).shear();
  if (shear >= kMaxShear)
    throw Error(
        ErrorKind::kData,
        fmt::format(
            "[nifti] {}: {}: got voxel axes with a cosine of {:.3g} between them, expected less than {}",
            file, form, shear, kMaxShear),
        "Resample the image to an orthogonal grid first.");
  if (shear > kShearWithoutWarning)
    log_warning(
        "[nifti] {}: {}: voxel axes are not orthogonal (cosine {:.3g}); the shear is ignored, spacing is the "
        "length of each axis",
        file, form, shear);
}

}  // namespace

NiftiHeader parse_nifti_header(std::span<const std::byte, kNiftiHeaderBytes> bytes, const std::string& file,
                               std::int64_t max_voxels) {
  NiftiHeader header;
  header.swapped = is_swapped(bytes, file);
  const HeaderReader fields(bytes, header.swapped);
  const auto magic = fields.array<char, 4>(kMagic);
  if (std::memcmp(magic.data(), "ni1", 4) == 0)
    reject(file, "magic", "\"ni1\" (a .hdr/.img pair)", "\"n+1\" (one .nii file)");
  if (std::memcmp(magic.data(), "n+1", 4) != 0)
    reject(file, "magic",
           fmt::format("bytes {:#04x} {:#04x} {:#04x} {:#04x}", magic[0], magic[1], magic[2], magic[3]),
           "\"n+1\"");
  parse_dimensions(fields, file, max_voxels, header);
  parse_values(fields, file, header);
  NiftiSpace& space = header.space;
  space.xyzt_units = fields.get<std::uint8_t>(kXyztUnits);
  space.qform_code = fields.get<std::int16_t>(kQformCode);
  space.sform_code = fields.get<std::int16_t>(kSformCode);
  space.pixdim = fields.array<float, 4>(kPixdim);
  space.quatern = fields.array<float, 6>(kQuatern);
  space.srow = fields.array<float, 12>(kSrow);
  return header;
}

Affine nifti_affine(const NiftiHeader& header, const std::string& file) {
  const NiftiSpace& space = header.space;
  const bool sform = space.sform_code > 0, qform = space.qform_code > 0;
  Affine affine = sform   ? sform_affine(space)
                  : qform ? qform_affine(space, file)
                          : pixdim_affine(space, file);
  const double unit = millimetres_per_unit(space.xyzt_units);
  for (std::size_t i = 0; i < 12; ++i) affine[i] *= unit;
  check_affine(affine, sform ? "sform" : qform ? "qform" : "pixdim", file);
  return affine;
}

std::array<std::byte, kNiftiDataOffset> encode_nifti_header(const NiftiHeader& header) {
  std::array<std::byte, kNiftiDataOffset> bytes{};
  const auto put = [&](std::size_t offset, const auto& value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
  };
  put(kSizeofHdr, std::int32_t{348});
  const auto channels = static_cast<std::int16_t>(header.channels);
  const std::int16_t rank = channels > 1 ? 4 : 3;
  put(kDim, std::array<std::int16_t, 8>{rank, static_cast<std::int16_t>(header.shape[2]),
                                        static_cast<std::int16_t>(header.shape[1]),
                                        static_cast<std::int16_t>(header.shape[0]), channels, 1, 1, 1});
  const auto* row = std::find_if(std::begin(kTypeCodes), std::end(kTypeCodes),
                                 [&](const TypeCode& code) { return code.type == header.type; });
  put(kDatatype, row->code);
  put(kBitpix, static_cast<std::int16_t>(8 * number_size(header.type)));
  const NiftiSpace& space = header.space;
  put(kPixdim,
      std::array<float, 8>{space.pixdim[0], space.pixdim[1], space.pixdim[2], space.pixdim[3], 1, 1, 1, 1});
  put(kVoxOffset, static_cast<float>(kNiftiDataOffset));
  put(kSclSlope, static_cast<float>(header.slope));
  put(kSclInter, static_cast<float>(header.inter));
  put(kXyztUnits, space.xyzt_units);
  put(kQformCode, space.qform_code);
  put(kSformCode, space.sform_code);
  put(kQuatern, space.quatern);
  put(kSrow, space.srow);
  std::memcpy(bytes.data() + kMagic, "n+1", 4);
  return bytes;
}

}  // namespace tandem

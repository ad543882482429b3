// Parsing, checking and encoding of headers (field offsets: nifti1.h and nifti2.h of the standard).
#include "data/nifti_header.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "core/base/error.h"
#include "core/base/log.h"

namespace tandem {
namespace {

constexpr double kMaxShear = 1e-2;
constexpr double kShearWithoutWarning = 1e-4;

// Where a field lies in a NIfTI-1 and in a NIfTI-2 header, and in which widths they keep it.
struct Offset {
  std::size_t one, two;
};
constexpr Offset kDim{40, 16};          // i16 | i64
constexpr Offset kDatatype{70, 12};     // i16
constexpr Offset kBitpix{72, 14};       // i16
constexpr Offset kPixdim{76, 104};      // f32 | f64, as the other numbers
constexpr Offset kVoxOffset{108, 168};  // f32 | i64
constexpr Offset kSclSlope{112, 176}, kSclInter{116, 184};
constexpr Offset kXyztUnits{123, 500};                        // u8 | i32
constexpr Offset kQformCode{252, 344}, kSformCode{254, 348};  // i16 | i32
constexpr Offset kQuatern{256, 352}, kSrow{280, 400};
constexpr Offset kMagic{344, 4};
constexpr std::string_view kMagicOne{"n+1\0", 4}, kMagicTwo{"n+2\0\r\n\032\n", 8};

struct TypeCode {
  std::int16_t code;
  NumberType type;
};
constexpr TypeCode kTypeCodes[] = {{2, NumberType::kU8},    {4, NumberType::kI16},   {8, NumberType::kI32},
                                   {16, NumberType::kF32},  {64, NumberType::kF64},  {256, NumberType::kI8},
                                   {512, NumberType::kU16}, {768, NumberType::kU32}, {1024, NumberType::kI64},
                                   {1280, NumberType::kU64}};

// Reads fields of a header of either version and byte order.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, bool swapped)
      : bytes_(bytes), swapped_(swapped), two_(bytes.size() >= kNifti2HeaderBytes) {}

  bool two() const { return two_; }
  template <class T>
  T get(std::size_t offset, std::size_t index = 0) const {
    std::array<std::byte, sizeof(T)> raw;
    std::memcpy(raw.data(), bytes_.data() + offset + index * sizeof(T), sizeof(T));
    if (swapped_) std::reverse(raw.begin(), raw.end());
    return std::bit_cast<T>(raw);
  }
  // A field that NIfTI-1 keeps as One and NIfTI-2 as Two.
  template <class One, class Two>
  Two field(Offset offset, std::size_t index = 0) const {
    return two_ ? get<Two>(offset.two, index) : static_cast<Two>(get<One>(offset.one, index));
  }
  double number(Offset offset, std::size_t index = 0) const { return field<float, double>(offset, index); }
  template <std::size_t N>
  std::array<float, N> floats(Offset offset) const {
    std::array<float, N> values;
    for (std::size_t i = 0; i < N; ++i) values[i] = static_cast<float>(number(offset, i));
    return values;
  }
  std::string_view text(Offset offset, std::size_t bytes) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + (two_ ? offset.two : offset.one), bytes};
  }

 private:
  std::span<const std::byte> bytes_;
  bool swapped_, two_;
};

template <class Got>
[[noreturn]] void reject(const std::string& file, std::string_view field, const Got& got,
                         std::string_view expected) {
  fail(ErrorKind::kData, "[nifti] {}: {}: got {}, expected {}", file, field, got, expected);
}

bool is_swapped(std::span<const std::byte> bytes, const std::string& file) {
  const auto native = HeaderReader(bytes, false).get<std::int32_t>(0);
  const auto other = HeaderReader(bytes, true).get<std::int32_t>(0);
  for (const std::int32_t size :
       {static_cast<std::int32_t>(kNiftiHeaderBytes), static_cast<std::int32_t>(kNifti2HeaderBytes)}) {
    if (native == size) return false;
    if (other == size) return true;
  }
  reject(file, "sizeof_hdr", native, "348 (a NIfTI-1 file) or 540 (NIfTI-2)");
}

void check_magic(const HeaderReader& fields, const std::string& file) {
  const std::string_view magic = fields.text(kMagic, 4);
  const std::string_view expected = fields.two() ? kMagicTwo : kMagicOne;
  if (fields.text(kMagic, expected.size()) == expected) return;
  const std::string named = fields.two() ? "\"n+2\"" : "\"n+1\"";
  if (magic.substr(0, 2) == "ni")
    reject(file, "magic", fmt::format("\"{}\" (a .hdr/.img pair)", magic.substr(0, 3)),
           named + " (one .nii file)");
  reject(file, "magic",
         fmt::format("bytes {:#04x} {:#04x} {:#04x} {:#04x}", magic[0], magic[1], magic[2], magic[3]), named);
}

void parse_dimensions(const HeaderReader& fields, const std::string& file, std::int64_t max_voxels,
                      NiftiHeader& header) {
  const auto rank = fields.field<std::int16_t, std::int64_t>(kDim);
  if (rank < 1 || rank > 7) reject(file, "dim[0] (number of dimensions)", rank, "1..7");
  std::array<std::int64_t, 8> dim;
  dim.fill(1);
  __extension__ unsigned __int128 product = 1;
  for (std::size_t i = 1; i <= static_cast<std::size_t>(rank); ++i) {
    dim[i] = fields.field<std::int16_t, std::int64_t>(kDim, i);
    if (dim[i] < 1 || dim[i] > max_voxels)
      reject(file, fmt::format("dim[{}]", i), dim[i],
             fields.two() ? fmt::format("1..{}", max_voxels) : "1..32767");
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
  const auto code = fields.field<std::int16_t, std::int16_t>(kDatatype);
  const auto* known = std::find_if(std::begin(kTypeCodes), std::end(kTypeCodes),
                                   [&](const TypeCode& row) { return row.code == code; });
  if (known == std::end(kTypeCodes))
    reject(file, "datatype", code,
           "2 4 8 16 64 256 512 768 1024 or 1280 (integers and floats of 8 to 64 bits)");
  header.type = known->type;
  const auto bits = fields.field<std::int16_t, std::int16_t>(kBitpix);
  const auto expected_bits = static_cast<int>(8 * number_size(header.type));
  if (bits != expected_bits)
    reject(file, "bitpix", bits, fmt::format("{} for datatype {}", expected_bits, code));

  const double offset = fields.two() ? static_cast<double>(fields.get<std::int64_t>(kVoxOffset.two))
                                     : static_cast<double>(fields.get<float>(kVoxOffset.one));
  const auto least = static_cast<double>(fields.two() ? kNifti2HeaderBytes + 4 : kNiftiDataOffset);
  if (!std::isfinite(offset) || offset != std::floor(offset) || offset < 0 || offset > 1e9 ||
      (offset > 0 && offset < least))
    reject(file, "vox_offset", static_cast<float>(offset),
           fmt::format("a whole number from {} to 1e9", least));
  header.data_offset = static_cast<std::size_t>(offset > 0 ? offset : least);

  const double slope = fields.number(kSclSlope), inter = fields.number(kSclInter);
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

std::size_t nifti_header_bytes(std::span<const std::byte> bytes, const std::string& file) {
  const bool swapped = is_swapped(bytes, file);
  return static_cast<std::size_t>(HeaderReader(bytes, swapped).get<std::int32_t>(0));
}

NiftiHeader parse_nifti_header(std::span<const std::byte> bytes, const std::string& file,
                               std::int64_t max_voxels) {
  NiftiHeader header;
  header.swapped = is_swapped(bytes, file);
  const HeaderReader fields(bytes, header.swapped);
  check_magic(fields, file);
  parse_dimensions(fields, file, max_voxels, header);
  parse_values(fields, file, header);
  NiftiSpace& space = header.space;
  space.xyzt_units = static_cast<std::uint8_t>(fields.field<std::uint8_t, std::int32_t>(kXyztUnits));
  space.qform_code = static_cast<std::int16_t>(fields.field<std::int16_t, std::int32_t>(kQformCode));
  space.sform_code = static_cast<std::int16_t>(fields.field<std::int16_t, std::int32_t>(kSformCode));
  space.pixdim = fields.floats<4>(kPixdim);
  space.quatern = fields.floats<6>(kQuatern);
  space.srow = fields.floats<12>(kSrow);
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

std::vector<std::byte> encode_nifti_header(const NiftiHeader& header) {
  const std::array<std::int64_t, 8> dim{header.channels > 1 ? 4 : 3,
                                        header.shape[2],
                                        header.shape[1],
                                        header.shape[0],
                                        header.channels,
                                        1,
                                        1,
                                        1};
  const bool two = *std::max_element(dim.begin(), dim.end()) > std::numeric_limits<std::int16_t>::max();
  const std::size_t offset = (two ? kNifti2HeaderBytes : kNiftiHeaderBytes) + 4;
  std::vector<std::byte> bytes(offset);
  const auto put = [&](std::size_t at, const auto& value) {
    std::memcpy(bytes.data() + at, &value, sizeof(value));
  };
  // Values as One at their place in NIfTI-1, or as Two in NIfTI-2.
  const auto put_list = [&]<class One, class Two>(One, Two, Offset at, const auto& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      two ? put(at.two + i * sizeof(Two), static_cast<Two>(values[i]))
          : put(at.one + i * sizeof(One), static_cast<One>(values[i]));
  };
  constexpr std::int16_t i16 = 0;
  constexpr std::int32_t i32 = 0;
  constexpr std::int64_t i64 = 0;
  const auto* row = std::find_if(std::begin(kTypeCodes), std::end(kTypeCodes),
                                 [&](const TypeCode& code) { return code.type == header.type; });
  const NiftiSpace& space = header.space;
  put(0, static_cast<std::int32_t>(offset - 4));
  put_list(i16, i64, kDim, dim);
  put_list(i16, i16, kDatatype, std::array{row->code});
  put_list(i16, i16, kBitpix, std::array{8 * number_size(header.type)});
  put_list(
      0.0f, 0.0, kPixdim,
      std::array<float, 8>{space.pixdim[0], space.pixdim[1], space.pixdim[2], space.pixdim[3], 1, 1, 1, 1});
  put_list(0.0f, i64, kVoxOffset, std::array{offset});
  put_list(0.0f, 0.0, kSclSlope, std::array{header.slope, header.inter});
  put_list(std::uint8_t{0}, i32, kXyztUnits, std::array{space.xyzt_units});
  put_list(i16, i32, kQformCode, std::array{space.qform_code, space.sform_code});
  put_list(0.0f, 0.0, kQuatern, space.quatern);
  put_list(0.0f, 0.0, kSrow, space.srow);
  const std::string_view magic = two ? kMagicTwo : kMagicOne;
  std::memcpy(bytes.data() + (two ? kMagic.two : kMagic.one), magic.data(), magic.size());
  return bytes;
}

}  // namespace tandem

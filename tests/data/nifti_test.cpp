// NIfTI-1: every number type, byte order, scaling, orientation form and compression; every kind of bad file;
// agreement with nibabel in both directions.
#include "data/nifti.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "tests/data/nifti_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::NiftiBuilder;
using testing::run_python;
using testing::TempFolder;
using testing::write_bytes;
using testing::write_gzip;

struct TypeCase {
  std::int16_t code, bits;
  double low, high;  // limits of the type that a float holds exactly
  void (*append)(NiftiBuilder&, double);
};
template <class T>
void append(NiftiBuilder& builder, double value) {
  builder.append(static_cast<T>(value));
}
const TypeCase kTypes[] = {
    {2, 8, 0, 255, append<std::uint8_t>},
    {256, 8, -128, 127, append<std::int8_t>},
    {512, 16, 0, 65535, append<std::uint16_t>},
    {4, 16, -32768, 32767, append<std::int16_t>},
    {768, 32, 0, 4294967040.0, append<std::uint32_t>},
    {8, 32, -2147483648.0, 2147483520.0, append<std::int32_t>},
    {1280, 64, 0, 18446742974197923840.0, append<std::uint64_t>},
    {1024, 64, -9223372036854775808.0, 9223371487098961920.0, append<std::int64_t>},
    {16, 32, -1.5, 3.25, append<float>},
    {64, 64, -1.5, 3.25, append<double>},
};

TEST(Nifti, ReadsEveryTypeByteOrderScalingAndCompression) {
  const TempFolder folder;
  for (const TypeCase& type : kTypes)
    for (const bool big : {false, true})
      for (const bool scaled : {false, true})
        for (const bool compressed : {false, true}) {
          NiftiBuilder builder;
          builder.big_endian = big;
          builder.dim = {3, 3, 2, 1, 1, 1, 1, 1};
          builder.datatype = type.code;
          builder.bitpix = type.bits;
          builder.slope = scaled ? 0.5f : 0.0f;  // 0: none, and then the intercept does not count either
          builder.inter = -4;
          const double stored[] = {type.low, type.high, 0, 1, 2, 100};
          for (const double value : stored) type.append(builder, value);
          const auto path = folder / (compressed ? "a.nii.gz" : "a.nii");
          compressed ? write_gzip(path, builder.bytes()) : write_bytes(path, builder.bytes());
          SCOPED_TRACE(::testing::Message()
                       << "type " << type.code << " big " << big << " scaled " << scaled);
          const Volume volume = read_nifti(path);
          EXPECT_EQ(volume.geometry.shape(), (Index3{1, 2, 3}));
          EXPECT_EQ(volume.channels, 1);
          ASSERT_EQ(volume.values.size(), 6u);
          for (std::size_t i = 0; i < 6; ++i)
            EXPECT_EQ(volume.values[i], static_cast<float>(scaled ? stored[i] * 0.5 - 4 : stored[i])) << i;
        }
}

TEST(Nifti, HigherDimensionsAreChannelsAndExtensionsAreSkipped) {
  const TempFolder folder;
  NiftiBuilder builder;
  builder.dim = {5, 2, 1, 1, 3, 2, 1, 1};
  builder.vox_offset = 400;
  for (int i = 0; i < 12; ++i) builder.append(static_cast<std::uint8_t>(i));
  write_bytes(folder / "a.nii", builder.bytes());
  const Volume volume = read_nifti(folder / "a.nii");
  EXPECT_EQ(volume.channels, 6);
  EXPECT_EQ(volume.geometry.shape(), (Index3{1, 1, 2}));
  EXPECT_EQ(volume.values, (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { read_nifti_labels(folder / "a.nii"); }),
              HasSubstr("6 channels, expected 1"));
}

Affine affine_of(const NiftiBuilder& builder) {
  const TempFolder folder;
  NiftiBuilder copy = builder;
  copy.append(std::uint8_t{7});
  write_bytes(folder / "a.nii", copy.bytes());
  return read_nifti(folder / "a.nii").geometry.affine();
}

void expect_affine(const Affine& got, const std::array<double, 12>& expected) {
  for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
  EXPECT_EQ(got[12], 0);
  EXPECT_EQ(got[15], 1);
}

TEST(Nifti, AffineIsSformElseQformElsePixdim) {
  NiftiBuilder builder;
  builder.pixdim = {1, 2, 3, 4, 1, 1, 1, 1};
  builder.srow = {-2, 0, 0, 10, 0, 3, 0, 20, 0, 0, 4, 30};
  // A quarter turn about z: (b, c, d) = (0, 0, sin 45 deg), x -> y, y -> -x.
  builder.quatern = {0, 0, static_cast<float>(std::numbers::sqrt2 / 2), 7, 8, 9};
  builder.qform_code = 1;
  expect_affine(affine_of(builder), {-2, 0, 0, 10, 0, 3, 0, 20, 0, 0, 4, 30});
  builder.sform_code = 0;
  expect_affine(affine_of(builder), {0, -3, 0, 7, 2, 0, 0, 8, 0, 0, 4, 9});
  builder.pixdim[0] = -1;  // qfac turns the third axis
  expect_affine(affine_of(builder), {0, -3, 0, 7, 2, 0, 0, 8, 0, 0, -4, 9});
  builder.qform_code = 0;
  expect_affine(affine_of(builder), {2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4, 0});
}

TEST(Nifti, UnitsBecomeMillimetres) {
  NiftiBuilder builder;
  builder.srow = {0.002f, 0, 0, 0.01f, 0, 0.003f, 0, 0, 0, 0, 0.004f, 0};
  builder.units = 1;  // metres
  expect_affine(affine_of(builder), {2, 0, 0, 10, 0, 3, 0, 0, 0, 0, 4, 0});
  builder.srow = {2000, 0, 0, 0, 0, 3000, 0, 0, 0, 0, 4000, 0};
  builder.units = 3;  // micrometres
  expect_affine(affine_of(builder), {2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4, 0});
}

TEST(Nifti, SmallShearIsAcceptedLargeShearIsNot) {
  NiftiBuilder builder;
  builder.srow = {1, 0.001f, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
  expect_affine(affine_of(builder), {1, 0.001, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0});
  builder.srow[1] = 0.02f;
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { affine_of(builder); }), HasSubstr("expected less than 0.01"));
}

struct BadHeader {
  const char* expected;
  void (*spoil)(NiftiBuilder&);
};
const BadHeader kBadHeaders[] = {
    {"sizeof_hdr: got 349, expected 348", [](NiftiBuilder& b) { b.sizeof_hdr = 349; }},
    {"magic: got \"ni1\"", [](NiftiBuilder& b) { b.magic = std::string("ni1\0", 4); }},
    {"magic: got bytes 0x61 0x62 0x63 0x64, expected \"n+1\"", [](NiftiBuilder& b) { b.magic = "abcd"; }},
    {"dim[0] (number of dimensions): got 8, expected 1..7", [](NiftiBuilder& b) { b.dim[0] = 8; }},
    {"dim[0] (number of dimensions): got 0, expected 1..7", [](NiftiBuilder& b) { b.dim[0] = 0; }},
    {"dim[2]: got 0, expected 1..32767", [](NiftiBuilder& b) { b.dim[2] = 0; }},
    {"dim[3]: got -5, expected 1..32767", [](NiftiBuilder& b) { b.dim[3] = -5; }},
    {"32767 x 32767 x 32767 x 32767 x 32767 x 32767 x 32767 voxels, expected at most 2147483648 voxels",
     [](NiftiBuilder& b) { b.dim = {7, 32767, 32767, 32767, 32767, 32767, 32767, 32767}; }},
    {"datatype: got 128, expected 2 4 8", [](NiftiBuilder& b) { b.datatype = 128; }},
    {"bitpix: got 16, expected 8 for datatype 2", [](NiftiBuilder& b) { b.bitpix = 16; }},
    {"vox_offset: got 351", [](NiftiBuilder& b) { b.vox_offset = 351; }},
    {"vox_offset: got 352.5", [](NiftiBuilder& b) { b.vox_offset = 352.5f; }},
    {"vox_offset: got nan", [](NiftiBuilder& b) { b.vox_offset = std::nanf(""); }},
    {"vox_offset: got -1", [](NiftiBuilder& b) { b.vox_offset = -1; }},
    {"vox_offset: got 3e+38", [](NiftiBuilder& b) { b.vox_offset = 3e38f; }},
    {"scl_slope: got inf", [](NiftiBuilder& b) { b.slope = std::numeric_limits<float>::infinity(); }},
    {"scl_inter: got nan", [](NiftiBuilder& b) { b.slope = 1, b.inter = std::nanf(""); }},
    {"sform row 1 column 3: got nan", [](NiftiBuilder& b) { b.srow[7] = std::nanf(""); }},
    {"sform column 0: got a voxel axis of length 0", [](NiftiBuilder& b) { b.srow[0] = 0; }},
    {"pixdim[2]: got 0", [](NiftiBuilder& b) { b.sform_code = 0, b.pixdim[2] = 0; }},
    {"pixdim[1]: got nan",
     [](NiftiBuilder& b) { b.sform_code = 0, b.qform_code = 1, b.pixdim[1] = std::nanf(""); }},
    {"quatern_b, c, d: got a squared norm of 3",
     [](NiftiBuilder& b) { b.sform_code = 0, b.qform_code = 2, b.quatern = {1, 1, 1, 0, 0, 0}; }},
    {"quatern_b, c, d: got a squared norm of nan",
     [](NiftiBuilder& b) { b.sform_code = 0, b.qform_code = 2, b.quatern[1] = std::nanf(""); }},
};

TEST(Nifti, BadHeadersNameFileFieldGotAndExpected) {
  const TempFolder folder;
  for (const bool big : {false, true})
    for (const BadHeader& bad : kBadHeaders) {
      NiftiBuilder builder;
      builder.big_endian = big;
      bad.spoil(builder);
      builder.append(std::uint8_t{1});
      const auto path = folder / "bad.nii";
      write_bytes(path, builder.bytes());
      if (big && builder.sizeof_hdr == 349) continue;  // the number shown then is the swapped one
      const std::string text = error_of(ErrorKind::kData, [&] { read_nifti(path); });
      EXPECT_THAT(text, HasSubstr(bad.expected));
      EXPECT_THAT(text, HasSubstr(path.string()));
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
}

TEST(Nifti, TruncatedFilesAreRefusedBeforeAllocation) {
  const TempFolder folder;
  NiftiBuilder builder;
  builder.dim = {3, 4, 4, 4, 1, 1, 1, 1};
  for (int i = 0; i < 64; ++i) builder.append(static_cast<std::uint8_t>(i * 37));
  const std::string whole = builder.bytes();
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{347}, std::size_t{348},
                                 std::size_t{400}, whole.size() - 1}) {
    write_bytes(folder / "cut.nii", whole.substr(0, size));
    const std::string text = error_of(ErrorKind::kData, [&] { read_nifti(folder / "cut.nii"); });
    EXPECT_THAT(text, HasSubstr(size < 348 ? "header: got" : "size: got a file of")) << size;
  }
  builder.dim = {3, 1200, 1200, 1200, 1, 1, 1, 1};  // 1.7 GB declared
  write_bytes(folder / "liar.nii", builder.bytes());
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { read_nifti(folder / "liar.nii"); }),
              HasSubstr("expected at least 1728000352"));
  write_gzip(folder / "liar.nii.gz", builder.bytes());
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { read_nifti(folder / "liar.nii.gz"); }),
              HasSubstr("compressed file"));
}

TEST(Nifti, DamagedCompressionIsFound) {
  const TempFolder folder;
  NiftiBuilder builder;
  builder.dim = {3, 16, 16, 16, 1, 1, 1, 1};
  std::uint32_t state = 1;
  for (int i = 0; i < 4096; ++i)
    builder.append(static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24));
  write_gzip(folder / "good.nii.gz", builder.bytes());
  const std::string good = testing::read_bytes(folder / "good.nii.gz");
  EXPECT_EQ(read_nifti(folder / "good.nii.gz").values.size(), 4096u);
  write_bytes(folder / "cut.nii.gz", good.substr(0, good.size() - 200));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { read_nifti(folder / "cut.nii.gz"); }), HasSubstr("truncated"));
  // The hardest place for a checksum (8 bytes at the end): just behind a full input buffer of zlib, in a file
  // whose last voxels are decompressed straight to the caller. A file name of the right length in the gzip
  // header moves it there.
  NiftiBuilder large;
  large.dim = {3, 64, 64, 64, 1, 1, 1, 1};
  large.datatype = 64, large.bitpix = 64;
  for (int i = 0; i < 64 * 64 * 64; ++i)
    large.append(static_cast<double>((state = state * 1664525u + 1013904223u) >> 8));
  write_gzip(folder / "large.nii.gz", large.bytes());
  std::string wrong_checksum = testing::read_bytes(folder / "large.nii.gz");
  constexpr std::size_t kInputBuffer = 131072;
  const std::size_t name_bytes = kInputBuffer - (wrong_checksum.size() - 8) % kInputBuffer;
  wrong_checksum.insert(10, std::string(name_bytes - 1, 'n') + '\0');
  wrong_checksum[3] |= 8;  // FNAME
  write_bytes(folder / "named.nii.gz", wrong_checksum);
  EXPECT_EQ(read_nifti(folder / "named.nii.gz").values.size(), 262144u);
  wrong_checksum[wrong_checksum.size() - 6] ^= 1;
  write_bytes(folder / "sum.nii.gz", wrong_checksum);
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { read_nifti(folder / "sum.nii.gz"); }),
              HasSubstr("damaged compressed data"));
}

TEST(Nifti, MissingFileAndFolderAreDataErrors) {
  const TempFolder folder;
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { read_nifti(folder / "none.nii"); }),
              HasSubstr("got no such file"));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { read_nifti(folder.path()); }), HasSubstr("got no such file"));
}

TEST(Nifti, LabelsMustBeWholeNumbers) {
  const TempFolder folder;
  NiftiBuilder builder;
  builder.dim = {3, 2, 2, 1, 1, 1, 1, 1};
  builder.datatype = 16, builder.bitpix = 32;
  for (const float value : {1.0f, -3.0f, 2.5f, 0.0f}) builder.append(value);
  write_bytes(folder / "a.nii", builder.bytes());
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { read_nifti_labels(folder / "a.nii"); }),
              HasSubstr("label at voxel [0, 1, 0] (z, y, x): got 2.5, expected a whole number"));
  builder.slope = 2;  // 2, -6, 5, 0
  write_bytes(folder / "b.nii", builder.bytes());
  EXPECT_EQ(read_nifti_labels(folder / "b.nii").values, (std::vector<std::int32_t>{2, -6, 5, 0}));
}

// Array -> file by nibabel in three orientations; canonical, the three are the same volume.
constexpr const char* kOrientationScript = R"(
import sys, numpy as np, nibabel as nib
from nibabel.orientations import io_orientation, axcodes2ornt, ornt_transform, inv_ornt_aff, apply_orientation
rng = np.random.default_rng(5)
data = rng.integers(-1000, 3000, (4, 5, 6)).astype(np.int16)
affine = np.array([[3., 0, 0, -20], [0, 2, 0, 5], [0, 0, 1.5, 7], [0, 0, 0, 1]])
base = axcodes2ornt('RAS')
for code in sys.argv[2:]:
    t = ornt_transform(base, axcodes2ornt(code))
    image = nib.Nifti1Image(apply_orientation(data, t), affine @ inv_ornt_aff(t, data.shape))
    assert ''.join(nib.aff2axcodes(image.affine)) == code
    nib.save(image, f'{sys.argv[1]}/{code}.nii.gz')
np.asarray(data.transpose(2, 1, 0), order='C').astype('<f4').tofile(sys.argv[1] + '/ras.f32')
)";

TEST(Nifti, AnyOrientationGivesTheSameCanonicalVolume) {
  TD_NEEDS_PYTHON("nibabel");
  const TempFolder folder;
  run_python(folder, kOrientationScript, {folder.path().string(), "RAS", "LPS", "PIR", "ASL", "IPR", "SAR"});
  const std::string raw = testing::read_bytes(folder / "ras.f32");
  std::vector<float> expected(raw.size() / 4);
  std::memcpy(expected.data(), raw.data(), raw.size());
  for (const std::string code : {"RAS", "LPS", "PIR", "ASL", "IPR", "SAR"}) {
    SCOPED_TRACE(code);
    const Volume stored = read_nifti(folder / (code + ".nii.gz"));
    EXPECT_EQ(stored.geometry.orientation(), code);
    const Volume canonical = on_grid(stored, stored.geometry.canonical());
    EXPECT_EQ(canonical.geometry.orientation(), "RAS");
    EXPECT_EQ(canonical.geometry.shape(), (Index3{6, 5, 4}));
    EXPECT_EQ(canonical.values, expected);
    expect_affine(canonical.geometry.affine(), {3, 0, 0, -20, 0, 2, 0, 5, 0, 0, 1.5, 7});
    EXPECT_THAT(canonical.geometry.spacing_mm(), ::testing::ElementsAre(1.5, 2, 3));
    // And back: the file's own grid.
    EXPECT_EQ(on_grid(canonical, Geometry(canonical.geometry.source())).values, stored.values);
  }
}

// Prints shape, dtype, codes, units, affine error against another file and a sum that depends on every
// voxel's place.
constexpr const char* kCompareScript = R"(
import sys, numpy as np, nibabel as nib
a, b = nib.load(sys.argv[1]), nib.load(sys.argv[2])
same = a.shape == b.shape and np.array_equal(np.asanyarray(a.dataobj), np.asanyarray(b.dataobj))
ha, hb = a.header, b.header
codes = all(int(ha[k]) == int(hb[k]) for k in ('sform_code', 'qform_code', 'xyzt_units'))
forms = np.array_equal(a.get_sform(), b.get_sform()) and np.array_equal(ha.get_zooms(), hb.get_zooms())
quats = all(float(ha[k]) == float(hb[k]) for k in ('quatern_b', 'quatern_c', 'quatern_d', 'qoffset_x', 'qoffset_y', 'qoffset_z'))
print(same, codes, forms, quats, np.abs(a.affine - b.affine).max() == 0, b.get_data_dtype())
)";

TEST(Nifti, WhatWeWriteIsWhatNibabelReads) {
  TD_NEEDS_PYTHON("nibabel");
  const TempFolder folder;
  run_python(folder, R"(
import sys, numpy as np, nibabel as nib
rng = np.random.default_rng(9)
data = rng.integers(0, 200, (4, 5, 6)).astype(np.uint8)
affine = np.array([[0, -2.5, .1, 12], [-3, 0, 0, 4], [0, .1, 2, -7], [0, 0, 0, 1.]])
q, r = np.linalg.qr(affine[:3, :3]); affine[:3, :3] = q * [3, 2.5, 2]
image = nib.Nifti1Image(data, affine)
image.header.set_xyzt_units('mm', 'sec'); image.set_sform(affine, 4); image.set_qform(affine, 1)
nib.save(image, sys.argv[1])
)",
             {(folder / "in.nii").string()});
  const LabelVolume labels = read_nifti_labels(folder / "in.nii");
  for (const std::string name : {"out.nii", "out.nii.gz"}) {
    // Through the canonical grid, as a prediction goes.
    write_nifti(folder / name, on_grid(labels, labels.geometry.canonical()));
    EXPECT_EQ(run_python(folder, kCompareScript, {(folder / "in.nii").string(), (folder / name).string()}),
              "True True True True True uint8\n");
  }
  LabelVolume large = labels;
  large.values[3] = 256;
  write_nifti(folder / "u16.nii", large);
  EXPECT_THAT(
      run_python(folder, kCompareScript, {(folder / "in.nii").string(), (folder / "u16.nii").string()}),
      HasSubstr("uint16"));
  large.values[3] = -1;
  write_nifti(folder / "i16.nii", large);
  EXPECT_THAT(
      run_python(folder, kCompareScript, {(folder / "in.nii").string(), (folder / "i16.nii").string()}),
      HasSubstr("int16"));
  const Volume image = read_nifti(folder / "in.nii");
  write_nifti(folder / "f32.nii.gz", on_grid(image, image.geometry.canonical()));
  EXPECT_EQ(
      run_python(folder, kCompareScript, {(folder / "in.nii").string(), (folder / "f32.nii.gz").string()}),
      "True True True True True float32\n");
}

TEST(Nifti, VoxelsOutsideARegionAreWrittenAsBackground) {
  const TempFolder folder;
  NiftiBuilder builder;
  builder.dim = {3, 4, 1, 1, 1, 1, 1, 1};
  for (const int value : {5, 6, 7, 8}) builder.append(static_cast<std::uint8_t>(value));
  write_bytes(folder / "a.nii", builder.bytes());
  const LabelVolume labels = read_nifti_labels(folder / "a.nii");
  const Geometry part = labels.geometry.cropped({0, 0, 1}, {1, 1, 2}).flipped(2);
  const LabelVolume cut = on_grid(labels, part);
  EXPECT_EQ(cut.values, (std::vector<std::int32_t>{7, 6}));
  expect_affine(part.affine(), {-1, 0, 0, 2, 0, 1, 0, 0, 0, 0, 1, 0});
  EXPECT_EQ(part.orientation(), "LAS");
  write_nifti(folder / "b.nii", cut);
  EXPECT_EQ(read_nifti_labels(folder / "b.nii").values, (std::vector<std::int32_t>{0, 6, 7, 0}));
  EXPECT_THAT(error_of(ErrorKind::kUsage,
                       [&] {
                         labels.geometry.cropped({0, 0, 2}, {1, 1, 3});
                       }),
              HasSubstr("region along x: got 2:5, expected a non-empty range within 0:4"));
}

}  // namespace
}  // namespace tandem

// Case files, conversion from NIfTI, the phantom, and the way back to the grid of the input.
#include "data/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "data/case_file.h"
#include "data/nifti.h"
#include "data/phantom.h"
#include "tests/data/nifti_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::NiftiBuilder;
using testing::run_python;
using testing::TempFolder;
using testing::write_bytes;

// 4 x 3 x 2 voxels (x, y, z), stored LPS: value = 100 z + 10 y + x of the *canonical* volume.
std::string lps_image(double add = 0) {
  NiftiBuilder builder;
  builder.dim = {3, 4, 3, 2, 1, 1, 1, 1};
  builder.datatype = 4, builder.bitpix = 16;
  builder.srow = {-2, 0, 0, 6, 0, -3, 0, 6, 0, 0, 5, 0};
  builder.pixdim = {1, 2, 3, 5, 1, 1, 1, 1};
  for (int z = 0; z < 2; ++z)
    for (int y = 2; y >= 0; --y)
      for (int x = 3; x >= 0; --x) builder.append(static_cast<std::int16_t>(100 * z + 10 * y + x + add));
  return builder.bytes();
}

std::vector<float> whole_image(const CaseFile& file) {
  const Index3& shape = file.info().geometry.shape();
  std::vector<float> values(static_cast<std::size_t>(file.info().channels * voxel_count(shape)));
  file.read_image({0, 0, 0}, shape, values);
  return values;
}

TEST(Convert, CanonicalThenRegionThenFlip) {
  const TempFolder folder;
  write_bytes(folder / "ct.nii", lps_image());
  write_bytes(folder / "seg.nii", lps_image(1));
  ConvertOptions options{.images = {(folder / "ct.nii").string()},
                         .label = (folder / "seg.nii").string(),
                         .regions = {parse_region("x=1:3"), parse_region("z=1:2")},
                         .flips = {parse_axis("x")},
                         .output = (folder / "sub folder" / "ct.h5").string()};
  const ConvertReport report = convert_case(options);
  EXPECT_EQ(report.case_id, "ct_x1-3_z1-2_flipx");
  EXPECT_EQ(report.label_counts, (std::map<std::int32_t, std::int64_t>{
                                     {102, 1}, {103, 1}, {112, 1}, {113, 1}, {122, 1}, {123, 1}}));
  const CaseFile file(options.output);
  EXPECT_EQ(file.info().id, "ct_x1-3_z1-2_flipx");
  EXPECT_EQ(file.info().geometry.shape(), (Index3{1, 3, 2}));
  EXPECT_EQ(whole_image(file), (std::vector<float>{102, 101, 112, 111, 122, 121}));
  std::vector<std::int32_t> labels(6);
  file.read_labels({0, 0, 0}, {1, 3, 2}, labels);
  EXPECT_THAT(labels, ElementsAre(103, 102, 113, 112, 123, 122));
  EXPECT_THAT(file.info().geometry.spacing_mm(), ElementsAre(5, 3, 2));
  // Canonical voxel 0 lies at the file's last x and y: (6 - 2 * 3, 6 - 3 * 2, 0) = (0, 0, 0) mm.
  const Affine affine = file.info().geometry.affine();
  EXPECT_THAT(affine, ElementsAre(-2, 0, 0, 4, 0, 3, 0, 0, 0, 0, 5, 5, 0, 0, 0, 1));
}

TEST(Convert, AnOutputThatExistsIsKept) {
  const TempFolder folder;
  write_bytes(folder / "ct.nii", lps_image());
  write_bytes(folder / "ct.h5", "mine");
  ConvertOptions options{.images = {(folder / "ct.nii").string()}, .output = (folder / "ct.h5").string()};
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { convert_case(options); }), HasSubstr("--overwrite"));
  EXPECT_EQ(testing::read_bytes(folder / "ct.h5"), "mine");
  options.overwrite = true;
  convert_case(options);
  const CaseFile file(options.output);
  EXPECT_FALSE(file.info().has_labels);
  std::vector<std::int32_t> labels(24);
  EXPECT_THAT(error_of(ErrorKind::kData,
                       [&] {
                         file.read_labels({0, 0, 0}, {2, 3, 4}, labels);
                       }),
              HasSubstr("no /label"));
}

TEST(Convert, SeveralImagesBecomeChannelsAndMustShareTheGrid) {
  const TempFolder folder;
  write_bytes(folder / "a.nii", lps_image());
  write_bytes(folder / "b.nii", lps_image(0.5));  // i16: the half is lost
  ConvertOptions options{.images = {(folder / "a.nii").string(), (folder / "b.nii").string()},
                         .output = (folder / "ab.h5").string()};
  EXPECT_EQ(convert_case(options).channels, 2);
  const CaseFile file(options.output);
  std::vector<float> box(2 * 2);
  file.read_image({1, 2, 0}, {1, 1, 2}, box);
  EXPECT_THAT(box, ElementsAre(120, 121, 120, 121));
  NiftiBuilder other;
  other.dim = {3, 4, 3, 2, 1, 1, 1, 1};
  for (int i = 0; i < 24; ++i) other.append(std::uint8_t{1});
  write_bytes(folder / "b.nii", other.bytes());
  options.overwrite = true;
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { convert_case(options); }),
              HasSubstr("affine row 0 column 0: got 1, expected 2 as"));
  other.dim = {3, 3, 3, 2, 1, 1, 1, 1};
  write_bytes(folder / "b.nii", other.bytes());
  options.images = {(folder / "a.nii").string()};
  options.label = (folder / "b.nii").string();
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { convert_case(options); }),
              HasSubstr("got [2, 3, 3], expected [2, 3, 4] as"));
}

TEST(Convert, VoxelsThatAreNotFiniteAreRefusedOrReplaced) {
  const TempFolder folder;
  NiftiBuilder builder;
  builder.dim = {3, 2, 1, 3, 1, 1, 1, 1};
  builder.datatype = 16, builder.bitpix = 32;
  for (int i = 0; i < 6; ++i) builder.append(i == 5 ? std::nanf("") : static_cast<float>(i));
  write_bytes(folder / "a.nii", builder.bytes());
  ConvertOptions options{.images = {(folder / "a.nii").string()}, .output = (folder / "a.h5").string()};
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { convert_case(options); }),
              HasSubstr("a.nii: channel 0, voxel [2, 0, 1] (z, y, x) of the canonical volume: got nan"));
  EXPECT_FALSE(std::filesystem::exists(options.output));
  options.nan_value = -7;
  convert_case(options);
  EXPECT_EQ(whole_image(CaseFile(options.output)), (std::vector<float>{0, 1, 2, 3, 4, -7}));
}

TEST(Convert, OutputsThatCannotBeAreRefused) {
  const TempFolder folder;
  write_bytes(folder / "ct.nii", lps_image());
  ConvertOptions options{
      .images = {(folder / "ct.nii").string()}, .output = (folder / "ct.txt").string(), .overwrite = true};
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { convert_case(options); }), HasSubstr("ends in .h5"));
  std::filesystem::create_symlink(folder / "ct.nii", folder / "ct.h5");
  options.output = (folder / "ct.h5").string();
  EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { convert_case(options); }), HasSubstr("is input and output"));
}

// HDF5's own conversion clips: 5000000000 would have become 2147483647.
TEST(CaseFile, LabelsBeyondThirtyTwoBitsAreRefusedWithTheirVoxel) {
  const TempFolder folder;
  Hdf5File file = Hdf5File::create_image();
  const std::int64_t shape[] = {2, 2, 2};
  const std::vector<float> raw(8);
  std::vector<std::int64_t> label{0, 1, 2, 3, -4, 5, 6, 7};
  file.write<float>("/raw", shape, raw);
  file.write<std::int64_t>("/label", shape, label);
  std::vector<std::byte> image = file.image();
  write_bytes(folder / "a.h5", {reinterpret_cast<const char*>(image.data()), image.size()});
  std::vector<std::int32_t> values(4);
  CaseFile(folder / "a.h5").read_labels({1, 0, 0}, {1, 2, 2}, values);
  EXPECT_THAT(values, ElementsAre(-4, 5, 6, 7));
  label[6] = 5'000'000'000;
  Hdf5File wrong = Hdf5File::create_image();
  wrong.write<float>("/raw", shape, raw);
  wrong.write<std::int64_t>("/label", shape, label);
  image = wrong.image();
  write_bytes(folder / "b.h5", {reinterpret_cast<const char*>(image.data()), image.size()});
  EXPECT_THAT(error_of(ErrorKind::kData,
                       [&] {
                         CaseFile(folder / "b.h5").read_labels({1, 0, 0}, {1, 2, 2}, values);
                       }),
              HasSubstr("b.h5: /label voxel [1, 1, 0] (z, y, x): got 5000000000, expected a whole number"));
}

TEST(Convert, RegionAndAxisSpelling) {
  EXPECT_EQ(parse_region("y=3:17").axis, 1);
  EXPECT_EQ(parse_region("y=3:17").begin, 3);
  EXPECT_EQ(parse_region("y=3:17").end, 17);
  for (const char* bad :
       {"", "x", "x=", "x=1", "x=1:", "x=:2", "x=a:b", "x:1=2", "x=1:2:3", "xy=1:2", "x= 1:2"})
    EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { parse_region(bad); }), HasSubstr("expected")) << bad;
  const TempFolder folder;
  write_bytes(folder / "ct.nii", lps_image());
  for (const char* outside : {"x=0:5", "x=-1:2", "x=2:2", "x=3:2"}) {
    ConvertOptions options{.images = {(folder / "ct.nii").string()},
                           .regions = {parse_region(outside)},
                           .output = (folder / "o.h5").string()};
    EXPECT_THAT(error_of(ErrorKind::kUsage, [&] { convert_case(options); }),
                HasSubstr("expected a non-empty range within 0:4"))
        << outside;
  }
}

TEST(CaseFile, RoundTripKeepsTheGridOfTheInput) {
  TD_NEEDS_PYTHON("nibabel");
  const TempFolder folder;
  // Oblique, anisotropic, both forms set.
  run_python(folder, R"(
import sys, numpy as np, nibabel as nib
rng = np.random.default_rng(3)
data = rng.integers(0, 6, (7, 9, 5)).astype(np.uint8)
affine = np.array([[.2, -2.5, .1, 12], [-3, .2, .3, 4], [.3, .1, -2, -7], [0, 0, 0, 1.]])
q, r = np.linalg.qr(affine[:3, :3]); affine[:3, :3] = (q * np.sign(np.diag(r))) * [3, 2.5, 2]
image = nib.Nifti1Image(data, affine); image.set_sform(affine, 2); image.set_qform(affine, 1); image.header.set_xyzt_units('mm')
nib.save(image, sys.argv[1])
)",
             {(folder / "in.nii.gz").string()});
  ConvertOptions options{.images = {(folder / "in.nii.gz").string()},
                         .label = (folder / "in.nii.gz").string(),
                         .flips = {2, 0},
                         .output = (folder / "in.h5").string()};
  convert_case(options);
  // A "prediction": the labels of the case file, written to the input's grid.
  const CaseFile file(options.output);
  LabelVolume prediction{file.info().geometry, {}};
  prediction.values.resize(7 * 9 * 5);
  file.read_labels({0, 0, 0}, file.info().geometry.shape(), prediction.values);
  write_nifti(folder / "out.nii.gz", prediction);
  EXPECT_EQ(run_python(folder, R"(
import sys, numpy as np, nibabel as nib, h5py
a, b = nib.load(sys.argv[1]), nib.load(sys.argv[2])
print(np.array_equal(np.asanyarray(a.dataobj), np.asanyarray(b.dataobj)), np.array_equal(a.affine, b.affine),
      all(int(a.header[k]) == int(b.header[k]) for k in ('sform_code', 'qform_code', 'xyzt_units')), np.array_equal(a.get_qform(), b.get_qform()))
with h5py.File(sys.argv[3]) as f:
    # Every voxel of the case file lies where the input has it.
    A, B, raw, data = f['raw'].attrs['affine'], a.affine, f['raw'][...], np.asanyarray(a.dataobj)
    z, y, x = np.indices(raw.shape).reshape(3, -1)
    mm = A @ np.stack([x, y, z, np.ones_like(x)])
    ijk = np.rint(np.linalg.inv(B) @ mm).astype(int)[:3]
    print(np.array_equal(data[tuple(ijk)], raw[z, y, x]), raw.dtype, f['label'].dtype, f['raw'].compression, f['raw'].shuffle)
)",
                       {(folder / "in.nii.gz").string(), (folder / "out.nii.gz").string(),
                        (folder / "in.h5").string()}),
            "True True True True\nTrue int16 uint8 gzip True\n");
}

TEST(CaseFile, ReadsForeignFiles) {
  TD_NEEDS_PYTHON("h5py");
  const TempFolder folder;
  run_python(folder, R"(
import sys, h5py, numpy as np
with h5py.File(sys.argv[1] + '/case 7.h5', 'w') as f:
    f['raw'] = np.arange(48, dtype='f8').reshape(2, 2, 3, 4) / 4
    f['label'] = np.arange(24, dtype='i8').reshape(2, 3, 4)
    f['raw'].attrs['spacing'] = [5., 3., 2.]
with h5py.File(sys.argv[1] + '/float_label.h5', 'w') as f:
    f['raw'] = np.zeros((2, 3, 4)); f['label'] = np.zeros((2, 3, 4))
with h5py.File(sys.argv[1] + '/shape.h5', 'w') as f:
    f['raw'] = np.zeros((2, 3, 4)); f['label'] = np.zeros((2, 3, 5), int)
with h5py.File(sys.argv[1] + '/flat.h5', 'w') as f:
    f['raw'] = np.zeros((3, 4))
)",
             {folder.path().string()});
  const CaseFile file(folder / "case 7.h5");
  EXPECT_EQ(file.info().id, "case 7");
  EXPECT_EQ(file.info().channels, 2);
  EXPECT_THAT(file.info().geometry.spacing_mm(), ElementsAre(5, 3, 2));
  std::vector<float> box(4);
  file.read_image({1, 2, 2}, {1, 1, 2}, box);
  EXPECT_THAT(box, ElementsAre(22 / 4.0f, 23 / 4.0f, 46 / 4.0f, 47 / 4.0f));
  std::vector<std::int32_t> labels(2);
  file.read_labels({1, 2, 2}, {1, 1, 2}, labels);
  EXPECT_THAT(labels, ElementsAre(22, 23));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { CaseFile(folder / "float_label.h5"); }),
              HasSubstr("/label: got type f64, expected integers"));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { CaseFile(folder / "shape.h5"); }),
              HasSubstr("got shape [2, 3, 5], expected [2, 3, 4]"));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { CaseFile(folder / "flat.h5"); }),
              HasSubstr("/raw: got shape [3, 4], expected (Z,Y,X)"));
}

TEST(CaseFile, GeometryThatContradictsItselfIsRefused) {
  TD_NEEDS_PYTHON("h5py");
  const TempFolder folder;
  const std::pair<const char*, const char*> cases[] = {
      {"a['affine'] = np.diag([4., 3, 3, 1])", "/raw@affine row 0 column 0: got 4, expected 3"},
      {"a['source_axes'] = np.array([[0, 1, 0], [0, 1, 0], [2, 1, 0.]])", "axis map: got axes 0 0 2"},
      {"a['source_axes'] = np.array([[0, 1, 0], [1, 3, 0], [2, 1, 0.]])", "signs 1 3 1"},
      {"a['source_axes'] = np.array([[0, 1, 0], [1, 1, 0], [2, 1, 1e300]])", "got an offset of 1e+300"},
      {"a['source_shape'] = np.array([1e300, 1, 1])", "/raw@source_shape: got 1e+300"},
      {"a['source_affine'] = np.full((4, 4), np.nan)", "/raw@source_affine row 0 column 0: got nan"},
      {"a['source_codes'] = np.array([1.])", "/raw@source_codes: got 1 numbers, expected 3"}};
  for (const auto& [edit, expected] : cases) {
    write_phantom_case(folder / "a.h5", {8, 8, 8}, 1);
    run_python(folder,
               std::string("import sys, h5py, numpy as np\nwith h5py.File(sys.argv[1], 'a') as f:\n    a = "
                           "f['raw'].attrs\n    ")
                   .append(edit),
               {(folder / "a.h5").string()});
    EXPECT_THAT(error_of(ErrorKind::kData, [&] { CaseFile(folder / "a.h5"); }), HasSubstr(expected)) << edit;
  }
}

TEST(CaseFile, FractionsAreKeptAsF32) {
  const TempFolder folder;
  const Affine affine = affine_of_spacing({1, 1, 1});
  const Geometry geometry(SourceGrid{{1, 1, 3}, affine, nifti_space_of(affine)});
  const Volume image{geometry, 1, {0.25f, -1e9f, 3}};
  const LabelVolume labels{geometry, {0, 300, 70000}};
  write_case(folder / "a.h5", "a", image, &labels, {"mr"});
  const CaseFile file(folder / "a.h5");
  EXPECT_EQ(whole_image(file), image.values);
  EXPECT_THAT(file.info().channel_names, ElementsAre("mr"));
  std::vector<std::int32_t> read(3);
  file.read_labels({0, 0, 0}, {1, 1, 3}, read);
  EXPECT_EQ(read, labels.values);
}

TEST(Phantom, HasEveryOrganOnBothSidesAndSaysSo) {
  const TempFolder folder;
  write_phantom_case(folder / "p.h5", kPhantomShape, 1);
  const CaseFile file(folder / "p.h5");
  EXPECT_EQ(file.info().id, "phantom-1");
  EXPECT_EQ(file.info().geometry.orientation(), "RAS");
  const Phantom phantom = make_phantom(kPhantomShape, 1);
  std::map<std::int32_t, std::array<std::int64_t, 2>> counts;  // left half x < 61, right half
  for (std::size_t i = 0; i < phantom.labels.values.size(); ++i)
    ++counts[phantom.labels.values[i]][i % 122 < 61 ? 0 : 1];
  EXPECT_EQ(counts.size(), 11u);
  for (const auto& [left, right] : {std::pair{77, 78}, {80, 81}, {82, 83}, {88, 89}, {86, 87}}) {
    EXPECT_GT(counts[left][0], 2000) << left;
    EXPECT_GT(counts[right][1], 2000) << right;
    EXPECT_EQ(counts[left][1] + counts[right][0], 0) << left;
  }
  EXPECT_EQ(make_phantom({16, 16, 16}, 3).image.values, make_phantom({16, 16, 16}, 3).image.values);
  EXPECT_NE(make_phantom({16, 16, 16}, 3).image.values, make_phantom({16, 16, 16}, 4).image.values);
}

}  // namespace
}  // namespace tandem

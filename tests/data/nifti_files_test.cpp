// NIfTI files as a whole: cut ones, forbidden ones, and NIfTI-2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include "data/nifti.h"
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

// The checksum and length at the end: gzread itself gives no error when they are missing.
TEST(Nifti, AFileCutInItsLastEightBytesIsTruncated) {
  const TempFolder folder;
  NiftiBuilder builder;
  builder.dim = {3, 4, 1, 1, 1, 1, 1, 1};
  for (int i = 0; i < 4; ++i) builder.append(static_cast<std::uint8_t>(i));
  write_gzip(folder / "good.nii.gz", builder.bytes());
  const std::string good = testing::read_bytes(folder / "good.nii.gz");
  EXPECT_EQ(read_nifti(folder / "good.nii.gz").values, (std::vector<float>{0, 1, 2, 3}));
  for (std::size_t cut = 1; cut <= 8; ++cut) {
    write_bytes(folder / "cut.nii.gz", good.substr(0, good.size() - cut));
    EXPECT_THAT(error_of(ErrorKind::kData, [&] { read_nifti(folder / "cut.nii.gz"); }),
                HasSubstr("truncated"))
        << cut;
  }
}

TEST(Nifti, AFileThatMayNotBeReadIsAMatterOfPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const TempFolder folder;
  write_bytes(folder / "a.nii", "x");
  std::filesystem::permissions(folder / "a.nii", std::filesystem::perms::none);
  EXPECT_THAT(error_of(ErrorKind::kResource, [&] { read_nifti(folder / "a.nii"); }),
              HasSubstr("Permission denied"));
}

// NIfTI-2: the same fields at other places and widths (nifti2.h), from an independent writer.
TEST(Nifti, NiftiTwoIsReadAndWritten) {
  TD_NEEDS_PYTHON("nibabel");
  const TempFolder folder;
  for (const std::string order : {"<", ">"}) {
    run_python(folder, R"(
import sys, numpy as np, nibabel as nib
data = np.arange(24, dtype=sys.argv[3] + 'i2').reshape(2, 3, 4) - 5
affine = np.array([[-2, 0, 0, 10.25], [0, 3, 0, 20], [0, 0, 4, 30], [0, 0, 0, 1.]])
image = nib.Nifti2Image(data, affine, nib.Nifti2Header(endianness=sys.argv[3]))
image.set_sform(affine, 2); image.set_qform(affine, 1); image.header.set_xyzt_units('mm'); image.header.set_slope_inter(0.5, 3)
image.header['pixdim'][0] = 1
nib.save(image, sys.argv[1])
np.asarray(np.asanyarray(nib.load(sys.argv[1]).dataobj).transpose(2, 1, 0), order='C').astype('<f4').tofile(sys.argv[2])
)",
               {(folder / "two.nii.gz").string(), (folder / "two.f32").string(), order});
    const Volume volume = read_nifti(folder / "two.nii.gz");
    EXPECT_EQ(volume.geometry.shape(), (Index3{4, 3, 2}));
    const std::string raw = testing::read_bytes(folder / "two.f32");
    std::vector<float> expected(24);
    std::memcpy(expected.data(), raw.data(), raw.size());
    EXPECT_EQ(volume.values, expected);
    const Affine affine = volume.geometry.affine();
    EXPECT_THAT(affine, ::testing::ElementsAre(-2, 0, 0, 10.25, 0, 3, 0, 20, 0, 0, 4, 30, 0, 0, 0, 1));
    EXPECT_EQ(volume.geometry.source().space.sform_code, 2);
  }
  // An axis that NIfTI-1 cannot count.
  const Index3 shape{1, 2, 40000};
  Affine affine = affine_of_spacing({1, 2, 0.5});
  LabelVolume labels{Geometry(SourceGrid{shape, affine, nifti_space_of(affine)}), {}};
  for (int i = 0; i < 80000; ++i) labels.values.push_back(i % 7);
  write_nifti(folder / "long.nii", labels);
  EXPECT_EQ(read_nifti_labels(folder / "long.nii").values, labels.values);
  EXPECT_EQ(run_python(folder, R"(
import sys, numpy as np, nibabel as nib
a = nib.load(sys.argv[1]); d = np.asanyarray(a.dataobj)
print(type(a).__name__, d.shape, np.array_equal(d.ravel(order='F'), np.arange(80000) % 7), a.affine.diagonal().tolist(), a.header.get_zooms()[0] == 0.5)
)",
                       {(folder / "long.nii").string()}),
            "Nifti2Image (40000, 2, 1) True [0.5, 2.0, 1.0, 1.0] True\n");
  testing::write_bytes(folder / "bad.nii", testing::read_bytes(folder / "long.nii").replace(4, 3, "ni2"));
  EXPECT_THAT(error_of(ErrorKind::kData, [&] { read_nifti(folder / "bad.nii"); }),
              HasSubstr("magic: got \"ni2\" (a .hdr/.img pair), expected \"n+2\""));
}

}  // namespace
}  // namespace tandem

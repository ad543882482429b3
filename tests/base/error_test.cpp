// Texts and exit codes of errors.
#include "core/base/error.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Error, ComposesTextModuleAndHint) {
  Error error(ErrorKind::kShape, "[conv] channels: got 4, expected 3", "Set model.in_channels: 4.");
  EXPECT_STREQ(error.what(), "[conv] channels: got 4, expected 3. Set model.in_channels: 4.");
  error.prefix_module("conv1");
  error.prefix_module("enc0");
  error.prefix_module("");
  EXPECT_EQ(error.module_path(), "enc0.conv1");
  EXPECT_STREQ(error.what(),
               "[conv] channels: got 4, expected 3\n  (module enc0.conv1). Set model.in_channels: 4.");
  EXPECT_EQ(error.text(), "[conv] channels: got 4, expected 3");
}

TEST(Error, NoSecondFullStop) {
  EXPECT_STREQ(Error(ErrorKind::kData, "[nifti] scan.nii: not a NIfTI file.").what(),
               "[nifti] scan.nii: not a NIfTI file.");
  EXPECT_STREQ(Error(ErrorKind::kData, "").what(), "");
}

TEST(Error, ExitCodes) {
  EXPECT_EQ(exit_code(ErrorKind::kInternal), 1);
  EXPECT_EQ(exit_code(ErrorKind::kUsage), 2);
  EXPECT_EQ(exit_code(ErrorKind::kConfig), 2);
  EXPECT_EQ(exit_code(ErrorKind::kShape), 2);
  EXPECT_EQ(exit_code(ErrorKind::kData), 3);
  EXPECT_EQ(exit_code(ErrorKind::kCheckpoint), 4);
  EXPECT_EQ(exit_code(ErrorKind::kNumeric), 5);
  EXPECT_EQ(exit_code(ErrorKind::kResource), 6);
  EXPECT_EQ(exit_code(ErrorKind::kDevice), 7);
  EXPECT_EQ(exit_code(ErrorKind::kStopped), 75);
}

TEST(Error, FailFormats) {
  try {
    fail(ErrorKind::kUsage, "[x] got {}, expected {}", 3, "four");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[x] got 3, expected four.");
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
}

TEST(Error, CheckInternalThrowsOnlyWhenBroken) {
  EXPECT_NO_THROW(check_internal(true, "fine"));
  EXPECT_THROW(check_internal(false, "broken"), Error);
}

}  // namespace
}  // namespace tandem

// Folders for outputs: made with those above, and one clear error where that cannot be.
#include "core/base/folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/base/error.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

class Folders : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  const fs::path root_ = fs::temp_directory_path() / ("tandem folders " + std::to_string(::getpid()));
};

TEST_F(Folders, AreMadeWithThoseAbove) {
  make_parent_folder("predict", root_ / "a" / "b" / "labels.nii.gz");
  EXPECT_TRUE(fs::is_directory(root_ / "a" / "b"));
  EXPECT_FALSE(fs::exists(root_ / "a" / "b" / "labels.nii.gz"));
  make_parent_folder("predict", root_ / "a" / "b" / "labels.nii.gz");  // once more is no error
  make_parent_folder("predict", "labels.nii.gz");
}

TEST_F(Folders, AFileInTheWayIsNamed) {
  std::ofstream(root_ / "file") << "x";
  for (const fs::path& file : {root_ / "file" / "x.h5", root_ / "file" / "below" / "x.h5"}) try {
      make_parent_folder("predict", file);
      FAIL() << file;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kResource);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("[predict] " + file.parent_path().string() +
                                                     ": the folder cannot be made"));
    }
}

}  // namespace
}  // namespace tandem

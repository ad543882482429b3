// `tandem data synth` and `data convert` as a user runs them: words, output, exit codes.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tandem {
namespace {

namespace fs = std::filesystem;

class DataCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("tandem data ") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Exit code of `tandem data WORDS` in the test's folder; what it printed is in output_.
  int run(const std::string& words) {
    const std::string command =
        joined({"cd '", folder_.string(), "' && '", TANDEM_PROGRAM, "' data ", words, " > .out 2>&1"});
    const int status = std::system(command.c_str());
    std::ifstream stream(folder_ / ".out");
    output_.assign(std::istreambuf_iterator<char>(stream), {});
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static std::string joined(std::initializer_list<std::string> parts) {
    std::string text;
    for (const std::string& part : parts) text.append(part);
    return text;
  }
  bool printed(const std::string& text) const { return output_.find(text) != std::string::npos; }

  fs::path folder_;
  std::string output_;
};

TEST_F(DataCommands, SynthThenConvertARegionInAnyOrderOfWords) {
  ASSERT_EQ(run("synth 'ct 1.nii.gz' --label seg.nii.gz --size 16"), 0) << output_;
  EXPECT_TRUE(printed("phantom 1 of [16, 16, 16] voxels")) << output_;
  ASSERT_EQ(run("convert 'ct 1.nii.gz' --label seg.nii.gz --region x=0:6 --flip x --output left.h5"), 0)
      << output_;
  EXPECT_TRUE(printed("left.h5: case ct 1_x0-6_flipx, [16, 16, 6] voxels")) << output_;
  EXPECT_TRUE(printed("LAS")) << output_;
  ASSERT_EQ(run("convert --region x=0:6 --region z=2:9 'ct 1.nii.gz' --case-id half --output a.h5"), 0)
      << output_;
  EXPECT_TRUE(printed("a.h5: case half, [7, 16, 6] voxels")) << output_;
  ASSERT_EQ(run("synth p.h5 --size 16 --seed 3"), 0) << output_;
  EXPECT_TRUE(fs::exists(folder_ / "p.h5"));
}

TEST_F(DataCommands, CheckSaysWhatIsWrongAndExitsWithThree) {
  ASSERT_EQ(run("synth ct.nii --label ct_seg.nii --size 8"), 0) << output_;
  std::ofstream(folder_ / "job.yaml")
      << "data: {format: nifti, train: [ct.nii], labels: {background: 0, hip: [77, 78]}, "
         "other_labels: background}\ntrain: {iterations: 1}\n";
  EXPECT_EQ(run("check job.yaml"), 0) << output_;
  EXPECT_TRUE(printed("1 case, 0 errors, 0 warnings")) << output_;
  EXPECT_EQ(run("check job.yaml data.other_labels=error --json"), 3) << output_;
  EXPECT_TRUE(printed("\"severity\": \"error\"")) << output_;
  fs::copy(folder_ / "ct.nii", folder_ / "copy.nii");
  EXPECT_EQ(run("check ct.nii copy.nii"), 0) << output_;  // warnings alone
  EXPECT_EQ(run("check ct.nii copy.nii --strict"), 3) << output_;
}

TEST_F(DataCommands, MistakesCostOneLineAndTheirExitCode) {
  ASSERT_EQ(run("synth ct.nii --label seg.nii --size 8"), 0) << output_;
  const struct {
    const char* words;
    int code;
    const char* text;
  } cases[] = {
      {"convert ct.nii", 2, "--output: got nothing"},
      {"convert none.nii --output a.h5", 3, "none.nii: got no such file"},
      {"convert ct.nii --region x=0:9 --output a.h5", 2, "got 0:9, expected a non-empty range within 0:8"},
      {"convert ct.nii --region x=0-9 --output a.h5", 2, "expected AXIS=BEGIN:END"},
      {"convert ct.nii --flip w --output a.h5", 2, "got 'w', expected x, y or z"},
      {"convert ct.nii --output ct.nii --overwrite", 2, "ends in .h5"},
      {"convert ct.nii --output ct.txt", 2, "ends in .h5"},
      {"synth ct.txt", 2, "ends in .h5"},
      {"synth ct.h5 --label seg.nii", 2, "ends in .nii or .nii.gz"},
      {"synth b.nii --label ./b.nii", 2, "expected two files"},
      {"check none.h5", 3, "no such file"},
      {"check", 2, "JOB|FILES is required"},
      {"synth ct.nii --label seg.nii --size 8", 2, "Choose another name, or pass --overwrite"},
      {"synth a.h5 --size 2", 2, "expected 8..2048"},
      {"synth a.h5 --shape 8,9", 2, "--shape: got '8,9', expected voxels as z,y,x"},
      {"synth a.h5 --shape 8,9,10 --size 8", 2, "got both --shape and --size"},
  };
  for (const auto& [words, code, text] : cases) {
    EXPECT_EQ(run(words), code) << words << ": " << output_;
    EXPECT_TRUE(printed(text)) << words << ": " << output_;
    EXPECT_FALSE(fs::exists(folder_ / "a.h5")) << words;
  }
}

}  // namespace
}  // namespace tandem

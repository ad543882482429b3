// postprocess.json: what is written is read back; what is missing or does not fit is named.
#include "train/postprocess_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

class PostprocessFile : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string error(const std::vector<std::string>& names) const {
    try {
      read_postprocess(folder_, names);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  const std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) / "tandem postprocess";
  const std::vector<std::string> names_{"background", "a", "b \"x\"", "c"};
};

TEST_F(PostprocessFile, IsReadBackAsItWasWritten) {
  for (const Postprocess& steps :
       {Postprocess{}, Postprocess{true, {}}, Postprocess{false, {1, 3}}, Postprocess{true, {2}}}) {
    write_postprocess(folder_, {.steps = steps, .dice_before = .5, .dice_after = .75}, names_);
    EXPECT_EQ(read_postprocess(folder_, names_), steps);
  }
}

TEST_F(PostprocessFile, WhatIsMissingOrDoesNotFitIsNamed) {
  EXPECT_THAT(error(names_), HasSubstr("tandem eval RUN --learn-postprocess"));
  write_postprocess(folder_, {}, names_);
  EXPECT_THAT(error({"background", "a", "b"}), HasSubstr("expected 'tandem postprocess 1' of 2 classes"));
  EXPECT_THAT(error({"background", "a", "b", "c"}), HasSubstr("got no 'b', expected every class of the job"));
  std::ofstream(folder_ / "postprocess.json") << "{";
  EXPECT_THAT(error(names_), HasSubstr("got another content"));
}

}  // namespace
}  // namespace tandem

// Every tests/config/wrong/NAME.yaml is refused with the text of NAME.txt beside it: file, line, column, got,
// expected, and what was probably meant. To make the text of a new file, or to look at a change:
// TANDEM_WRITE_GOLDEN=1 test_train --gtest_filter=WrongJobs*, then read what `git diff` shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "core/backends/cuda/cuda_plugin.h"
#include "tests/data/test_files.h"
#include "train/job_check.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  if (what.empty()) return;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

// The message, with the folder of the files left out, and what this machine lacks of CUDA.
std::string refusal_of(const fs::path& file) {
  std::string text;
  try {
    load_checked_job(file, {});
    return "no error";
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.kind()), 2) << file;
    text = error.what();
  }
  replace_all(text, file.parent_path().string() + "/", "");
  replace_all(text, cuda::plugin().reason, "no CUDA device: REASON");
  return text;
}

TEST(WrongJobs, AreRefusedWithTheirText) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(TANDEM_SOURCE_DIR) / "tests/config/wrong")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const fs::path golden = fs::path(entry.path()).replace_extension(".txt");
    const std::string text = refusal_of(entry.path());
    if (std::getenv("TANDEM_WRITE_GOLDEN") != nullptr) testing::write_bytes(golden, text);
    EXPECT_EQ(text, testing::read_bytes(golden)) << entry.path();
    EXPECT_NE(text, "no error") << entry.path();
    // Never an unexplained line: the place is always told.
    EXPECT_NE(text.find("  --> " + entry.path().filename().string() + ":"), std::string::npos) << text;
  }
  EXPECT_GE(files, 100);
}

}  // namespace
}  // namespace tandem

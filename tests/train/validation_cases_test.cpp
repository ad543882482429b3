// The cases a run validates on are looked at before it starts.
#include <gtest/gtest.h>

#include "data/case_probe.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"
#include "train/evaluate.h"

namespace tandem {
namespace {

// Read whole in a child process at the start: no process is forked later, beside the loader's threads.
TEST(ValidationCases, AreTriedWholeBeforeTheRun) {
  const testing::TempFolder folder;
  const auto file = folder / "a.h5";
  testing::write_counting_case(file, {4, 3, 3}, [](const Index3&) { return 1; });
  DataOptions data;
  data.validation = {file.string()};
  EXPECT_EQ(checked_validation_cases(data, 1).size(), 1);
  EXPECT_FALSE(probe_case_file(file, true));
}

}  // namespace
}  // namespace tandem

// The cases a run validates on are looked at before it starts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/half.h"
#include "data/case_probe.h"
#include "data/fingerprint.h"
#include "data/patch_dataset.h"
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

// amp.md C5: ten windows of 40,000 hits each are 400,000, which FP16 does not hold.
TEST(ValidationCases, HitsAreCountedInWholeNumbers) {
  EXPECT_TRUE(std::isinf(to_float(to_half(400000))));
  const testing::TempFolder folder;
  testing::write_counting_case(folder / "a.h5", {10, 200, 200}, [](const Index3&) { return 1; });
  int windows = 0;
  const PatchModel model = [&](const Tensor& image) {
    ++windows;
    const Shape shape = image.shape().with(1, 3);
    std::vector<double> logits(static_cast<std::size_t>(shape.numel()), 0);
    std::fill_n(logits.begin() + 40000, 40000, 8.0);  // of class 1
    return Tensor::from_values(shape, logits, DType::kF16);
  };
  const SegmentationScores scores = evaluate_cases(
      testing::plain_options(), {case_of_file(folder / "a.h5")},
      {.window = {.patch = {1, 200, 200}, .overlap = 0}, .metrics = {}, .on_case = nullptr}, model);
  EXPECT_EQ(windows, 10);
  EXPECT_EQ(scores.cases()[0].scores[1].counts, (OverlapCounts{.true_positive = 400000}));
  EXPECT_EQ(scores.mean_dice(), 1);
}

TEST(ValidationCases, AStopIsSeenBetweenCases) {
  const testing::TempFolder folder;
  DataOptions data = testing::plain_options();
  for (const char* name : {"a.h5", "b.h5", "c.h5"}) {
    testing::write_counting_case(folder / name, {4, 3, 3}, [](const Index3& at) { return at[0] % 2; });
    data.train.push_back((folder / name).string());
  }
  data.validation = data.train;
  data.normalize[0] = {.channel = 0, .kind = NormalizeKind::kCt};
  int asked = 0;
  const StopRequested at_the_second = [&] { return ++asked == 2; };
  const auto expect_stop = [&](const std::function<void()>& body) {
    asked = 0;
    EXPECT_NE(testing::error_of(ErrorKind::kStopped, body).find("no step was taken"), std::string::npos);
    EXPECT_EQ(asked, 2);
  };
  expect_stop([&] { checked_validation_cases(data, 1, at_the_second); });
  expect_stop([&] { with_fingerprint(data, at_the_second); });
  data = with_fingerprint(data);
  expect_stop([&] { PatchDataset(data, {}, {}, false, at_the_second); });
  asked = -3;  // beyond the headers
  EXPECT_THROW(PatchDataset(data, {}, {}, false, at_the_second), Error);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace tandem

// The thread team: coverage of a range, borders, exceptions.
#include "core/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <vector>

#include "core/base/error.h"

namespace tandem {
namespace {

class Parallel : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_compute_threads(GetParam()); }
  void TearDown() override { set_compute_threads(0); }
};

TEST_P(Parallel, CoversTheRangeOnce) {
  for (const std::int64_t n : {0, 1, 7, 64, 1000})
    for (const std::int64_t grain : {1, 16, 4096}) {
      std::vector<std::atomic<int>> touched(static_cast<std::size_t>(n));
      parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_LT(begin, end);
        EXPECT_EQ(begin % grain, 0);
        for (std::int64_t i = begin; i < end; ++i) ++touched[static_cast<std::size_t>(i)];
      });
      for (const auto& count : touched) ASSERT_EQ(count, 1) << n << " " << grain;
    }
}

TEST_P(Parallel, BlockBordersDoNotDependOnThreads) {
  std::mutex mutex;
  std::set<std::array<std::int64_t, 3>> blocks;
  parallel_blocks(1000, 300, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    blocks.insert({block, begin, end});
  });
  EXPECT_EQ(blocks, (std::set<std::array<std::int64_t, 3>>{
                        {0, 0, 300}, {1, 300, 600}, {2, 600, 900}, {3, 900, 1000}}));
}

TEST_P(Parallel, ExceptionsCrossTheRegion) {
  EXPECT_THROW(parallel_for(100, 1, [](std::int64_t, std::int64_t) { fail(ErrorKind::kData, "[x] bad"); }),
               Error);
  int sum = 0;  // the team still works
  parallel_for(1, 1, [&](std::int64_t, std::int64_t) { sum = 1; });
  EXPECT_EQ(sum, 1);
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, ::testing::Values(1, 2, 3));

TEST(ParallelThreads, SetAndAuto) {
  set_compute_threads(3);
  EXPECT_EQ(compute_threads(), 3);
  set_compute_threads(0);
  EXPECT_EQ(compute_threads(), usable_cores());
  EXPECT_GE(usable_cores(), 1);
  EXPECT_THROW(set_compute_threads(-1), Error);
}

}  // namespace
}  // namespace tandem

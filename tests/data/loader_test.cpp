// The loader: the same batches for any number of workers and any start, errors, and stopping.
#include "data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <set>
#include <thread>

#include "core/base/rng.h"
#include "data/patch_dataset.h"
#include "tests/data/case_builder.h"
#include "tests/data/test_files.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

// Samples that record their draw; sample `bad` throws.
class Recording final : public Dataset {
 public:
  explicit Recording(std::int64_t size, std::int64_t bad = -1) : size_(size), bad_(bad) {}
  std::int64_t size() const override { return size_; }
  Sample get(std::int64_t index, const Draw& draw) const override {
    ++calls;
    if (index == bad_) fail(ErrorKind::kData, "[test] file-{}.h5: is bad", index);
    RandomStream stream(draw.seed, RandomPurpose::kPatch, draw.epoch, draw.sample);
    if (stream.uniform() < 0.2) std::this_thread::yield();
    Sample sample{Tensor({1, 2, 1, 1, 2}, DType::kF32),
                  Tensor({1, 1, 1, 2}, DType::kI32),
                  std::to_string(index),
                  {draw.slot, 0, 0}};
    const float values[] = {static_cast<float>(stream.uniform()), static_cast<float>(draw.epoch),
                            static_cast<float>(draw.sample), static_cast<float>(draw.batch_size)};
    std::copy(values, values + 4, sample.image.data<float>());
    std::fill_n(sample.label.data<std::int32_t>(), 2, static_cast<std::int32_t>(index));
    return sample;
  }
  mutable std::atomic<int> calls{0};

 private:
  std::int64_t size_, bad_;
};

struct Record {
  std::vector<double> image, label;
  std::vector<std::string> ids;
  friend bool operator==(const Record&, const Record&) = default;
};

std::vector<Record> run(const LoaderOptions& options, std::int64_t size, int batches) {
  Loader loader(std::make_shared<Recording>(size), options);
  std::vector<Record> records;
  for (int i = 0; i < batches; ++i) {
    const Batch batch = loader.next();
    EXPECT_EQ(batch.number, options.first_batch + i);
    EXPECT_EQ(batch.image.shape(), (Shape{options.batch_size, 2, 1, 1, 2}));
    EXPECT_EQ(batch.label.shape(), (Shape{options.batch_size, 1, 1, 2}));
    EXPECT_GE(batch.wait_ms, 0);
    records.push_back({batch.image.to_values(), batch.label.to_values(), batch.ids});
  }
  return records;
}

TEST(Loader, AnyNumberOfWorkersGivesTheSameBatches) {
  const LoaderOptions base{.batch_size = 3, .seed = 8};
  const std::vector<Record> expected = run(base, 7, 25);
  for (const std::int64_t workers : {1, 2, 4})
    for (const std::int64_t prefetch : {1, 2, 5}) {
      LoaderOptions options = base;
      options.workers = workers;
      options.prefetch = prefetch;
      EXPECT_EQ(run(options, 7, 25), expected) << workers << " workers, prefetch " << prefetch;
    }
}

// Cases in memory, in the disk cache and in their files, all read by every worker.
TEST(Loader, WorkersShareTheCasesWhereverTheyLie) {
  const testing::TempFolder folder;
  std::vector<std::string> files;
  for (const char* name : {"a.h5", "b.h5", "c.h5"}) {
    testing::write_counting_case(folder / name, {9, 10, 11},
                                 [](const Index3& at) { return at[0] == 4 ? 1 : 0; });
    files.push_back((folder / name).string());
  }
  DataOptions data = testing::plain_options(files);
  const AugmentOptions augment{.mirror = {"x"}, .rotate_deg = 15, .noise_std = {{0.1, 0.1}}};
  std::vector<std::vector<double>> expected;
  for (const CacheKind cache : {CacheKind::kRam, CacheKind::kDisk, CacheKind::kNone})
    for (const std::int64_t workers : {0, 4}) {
      data.cache = cache;
      Loader loader(std::make_shared<PatchDataset>(data, PatchOptions{.size = {4, 5, 6}}, augment),
                    {.batch_size = 2, .workers = workers, .prefetch = 3});
      std::vector<std::vector<double>> got;
      for (int i = 0; i < 12; ++i) got.push_back(loader.next().image.to_values());
      if (expected.empty()) expected = got;
      EXPECT_EQ(got, expected) << workers << " workers";
    }
}

TEST(Loader, ResumesAtAnyBatch) {
  const LoaderOptions base{.batch_size = 3, .seed = 8};
  const std::vector<Record> expected = run(base, 7, 12);
  for (const std::int64_t first : {1, 2, 5, 11})
    for (const std::int64_t workers : {0, 2}) {
      LoaderOptions options = base;
      options.first_batch = first;
      options.workers = workers;
      const auto rest = run(options, 7, static_cast<int>(12 - first));
      EXPECT_TRUE(std::equal(rest.begin(), rest.end(), expected.begin() + first)) << first;
    }
}

TEST(Loader, EachEpochIsAPermutation) {
  Loader loader(std::make_shared<Recording>(6), {.batch_size = 2, .seed = 1});
  std::set<std::vector<std::string>> orders;
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::vector<std::string> order;
    for (int i = 0; i < 3; ++i)
      for (const std::string& id : loader.next().ids) order.push_back(id);
    orders.insert(order);
    EXPECT_EQ(std::set<std::string>(order.begin(), order.end()).size(), 6u);
  }
  EXPECT_GT(orders.size(), 1u);
  Loader in_order(std::make_shared<Recording>(3), {.batch_size = 4, .shuffle = false});
  const Batch batch = in_order.next();
  EXPECT_THAT(batch.ids, ElementsAre("0", "1", "2", "0"));
  EXPECT_THAT(batch.origins, ElementsAre(Index3{0, 0, 0}, Index3{1, 0, 0}, Index3{2, 0, 0}, Index3{3, 0, 0}));
}

TEST(Loader, ErrorsOfASampleReachNextWithTheBatchTheyBelongTo) {
  for (const std::int64_t workers : {0, 1, 2, 4}) {
    Loader loader(std::make_shared<Recording>(10, 5),
                  {.batch_size = 2, .shuffle = false, .workers = workers, .prefetch = 4});
    EXPECT_THAT(loader.next().ids, ElementsAre("0", "1"));
    EXPECT_THAT(loader.next().ids, ElementsAre("2", "3"));
    for (int again = 0; again < 2; ++again)
      EXPECT_THAT(error_of(ErrorKind::kData, [&] { loader.next(); }), HasSubstr("file-5.h5: is bad"))
          << workers;
  }
}

TEST(Loader, PreparesNoMoreThanPrefetchBatchesAhead) {
  const auto dataset = std::make_shared<Recording>(100);
  Loader loader(dataset, {.batch_size = 2, .workers = 2, .prefetch = 3});
  loader.next();
  loader.next();
  constexpr int kAllowed = (2 + 3) * 2;
  while (dataset->calls < kAllowed) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // time for a worker that would go too far
  EXPECT_EQ(dataset->calls, kAllowed);
}

TEST(Loader, StopsWithoutHangingAtAnyMoment) {
  for (int round = 0; round < 50; ++round) {
    Loader loader(std::make_shared<Recording>(9, round % 3 == 0 ? 4 : -1),
                  {.batch_size = 2, .workers = 1 + round % 4, .prefetch = 1 + round % 3});
    for (int i = 0; i < round % 3; ++i) {
      try {
        loader.next();
      } catch (const Error&) {
      }
    }
  }
  EXPECT_EQ(Loader(std::make_shared<Recording>(1), {.workers = 4}).workers(), 4);
  EXPECT_GE(Loader(std::make_shared<Recording>(1), {.workers = std::nullopt}).workers(), 1);
}

class Uneven final : public Dataset {
 public:
  std::int64_t size() const override { return 2; }
  Sample get(std::int64_t index, const Draw&) const override {
    return {Tensor({1, 1, 1, 1, 1 + index}, DType::kF32),
            Tensor({1, 1, 1, 1 + index}, DType::kI32),
            "case-" + std::to_string(index),
            {}};
  }
};

// A data set whose sample hangs until it is let go.
class Hanging final : public Dataset {
 public:
  std::int64_t size() const override { return 4; }
  std::string name(std::int64_t index) const override { return "case-" + std::to_string(index) + ".h5"; }
  Sample get(std::int64_t index, const Draw& draw) const override {
    gate_.get_future().wait();
    return Recording(4).get(index, draw);
  }
  void let_go() { gate_.set_value(); }

 private:
  mutable std::promise<void> gate_;
};

TEST(Loader, AStopIsSeenWhileItWaitsForASampleThatHangs) {
  const auto dataset = std::make_shared<Hanging>();
  Loader loader(dataset, {.workers = 1, .stop_requested = [] { return true; }});
  EXPECT_THAT(error_of(ErrorKind::kStopped, [&] { loader.next(); }),
              HasSubstr("[loader] stopped while waiting for batch 0"));
  dataset->let_go();
}

TEST(Loader, AWaitThatIsLongNamesTheSamplesInWork) {
  const auto dataset = std::make_shared<Hanging>();
  int asked = 0;
  Loader loader(dataset, {.shuffle = false,
                          .workers = 1,
                          .stop_requested = [&] { return ++asked == 3; },
                          .patience = std::chrono::milliseconds(0)});
  ::testing::internal::CaptureStderr();
  error_of(ErrorKind::kStopped, [&] { loader.next(); });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::ContainsRegex("batch 0 is not ready after [0-9]+ s; samples in work: case-0.h5"));
  dataset->let_go();
}

TEST(Loader, TheFirstOfSeveralCausesIsShown) {
  for (const std::int64_t workers : {0, 1, 4}) {
    class AllBad final : public Dataset {
      std::int64_t size() const override { return 8; }
      Sample get(std::int64_t index, const Draw&) const override {
        if (index % 2 == 0) fail(ErrorKind::kData, "[test] file-{}.h5: is bad", index);
        throw std::bad_alloc();
      }
    };
    Loader loader(std::make_shared<AllBad>(), {.batch_size = 4, .shuffle = false, .workers = workers});
    for (int again = 0; again < 2; ++again)
      EXPECT_THAT(error_of(ErrorKind::kData, [&] { loader.next(); }), HasSubstr("file-0.h5: is bad"));
  }
}

TEST(Loader, SamplesOfOneBatchMustHaveOneShape) {
  for (const std::int64_t workers : {0, 2}) {
    Loader loader(std::make_shared<Uneven>(), {.batch_size = 2, .shuffle = false, .workers = workers});
    EXPECT_THAT(
        error_of(ErrorKind::kData, [&] { loader.next(); }),
        HasSubstr("sample 'case-1': got F32 [1, 1, 1, 1, 2], expected F32 [1, 1, 1, 1, 1] as 'case-0'"));
  }
}

}  // namespace
}  // namespace tandem

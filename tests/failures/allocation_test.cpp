// Any allocation may fail: a step, a save and a load then end in an error that the program turns into exit
// code 6, and nothing is left in a state that the next one trips over. A program of its own: it replaces
// operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>

#include "core/base/parallel.h"
#include "core/ops/loss.h"
#include "layers/models/unet3d.h"
#include "tests/train/bright_voxels.h"
#include "tests/train/checkpoint_content.h"
#include "tests/train/fault_calls.h"
#include "train/trainer.h"

namespace {

std::atomic<std::int64_t> calls{0};
// The numbers of the calls that fail: from `first` on, `count` of them.
std::atomic<std::int64_t> first{0}, last{0};

bool fails() {
  const std::int64_t call = ++calls;
  return call >= first.load(std::memory_order_relaxed) && call <= last.load(std::memory_order_relaxed);
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (fails()) throw std::bad_alloc();
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  void* pointer = std::aligned_alloc(alignment, rounded);
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}

// Not inlined: the compiler would take the pair of aligned_alloc and free below operator new for a mistake.
[[gnu::noinline]] void release(void* pointer) { std::free(pointer); }

}  // namespace

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
// std::stable_sort asks for its buffer so; the sanitizer's own would not match the delete below.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return allocate(size, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* pointer) noexcept { release(pointer); }
void operator delete(void* pointer, const std::nothrow_t&) noexcept { release(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { release(pointer); }
void operator delete(void* pointer, std::align_val_t) noexcept { release(pointer); }
void operator delete(void* pointer, std::size_t, std::align_val_t) noexcept { release(pointer); }

namespace tandem {
namespace {

using testing::sample_content;
using testing::TempFolder;

#ifdef __SANITIZE_ADDRESS__
constexpr std::int64_t kPoints = 60;  // each takes ten times as long there
#else
constexpr std::int64_t kPoints = 300;
#endif

// Runs `body` while the n-th allocation, and with `persistent` each later one, fails. False: it got through.
bool ends_early(std::int64_t n, bool persistent, const std::function<void()>& body) {
  bool failed = false;
  calls = 0;
  last = persistent ? std::numeric_limits<std::int64_t>::max() : n;
  first = n;
  try {
    body();
  } catch (const std::bad_alloc&) {
    failed = true;
  } catch (const Error& error) {
    first = last = 0;
    EXPECT_EQ(exit_code(error.kind()), 6) << "allocation " << n << ": " << error.what();
    failed = true;
  }
  first = last = 0;
  return failed;
}

std::int64_t allocations_of(const std::function<void()>& body) {
  calls = 0;
  body();
  return calls;
}

// The first of the allocations one by one, then the rest in even steps: half of `count` each.
std::vector<std::int64_t> points(std::int64_t allocations, std::int64_t count = kPoints) {
  std::vector<std::int64_t> chosen;
  for (std::int64_t n = 1; n <= std::min(allocations, count / 2); ++n) chosen.push_back(n);
  const std::int64_t rest = allocations - count / 2;
  for (std::int64_t i = 1; i <= std::min(rest, count / 2); ++i)
    chosen.push_back(count / 2 + i * rest / std::min(rest, count / 2));
  return chosen;
}

struct Training {
  UNet3d model{UNet3dOptions{.features = {4, 8}}, 1, 2};
  Trainer trainer{
      Context{.compute = DType::kF16, .seed = 5},
      Precision{.compute = DType::kF16},
      model,
      [](const Outputs& outputs, const Target& target) { return dice_ce(outputs.main, target.label, {}); },
      {.optimizer = {.name = OptimizerKind::kAdamW, .lr = 1e-2}, .total_steps = 20}};
  CheckpointContent content() const {
    CheckpointContent content;
    trainer.save(content);
    for (NamedTensor& tensor : content.tensors) tensor.tensor = tensor.tensor.clone();
    return content;
  }
  void step(std::int64_t batch, std::int64_t workers = 0) {
    Loader loader(std::make_shared<testing::BrightVoxels>(4, 4),
                  {.batch_size = 2, .seed = 9, .first_batch = batch, .workers = workers});
    trainer.step(loader);
  }
};

void expect_step_recovers(bool persistent, std::int64_t workers) {
  set_compute_threads(1);
  Training training;
  training.step(0);
  const CheckpointContent before = training.content();
  const std::int64_t allocations = allocations_of([&] { training.step(1, workers); });
  const CheckpointContent after = training.content();
  int failures = 0;
  for (const std::int64_t n : points(allocations)) {
    training.trainer.load(before);
    failures += ends_early(n, persistent, [&] { training.step(1, workers); });
    training.trainer.load(before);
    training.step(1, workers);
    const auto difference = diff_checkpoints(training.content(), after);
    ASSERT_FALSE(difference.has_value()) << "allocation " << n << ": " << difference->name;
  }
  EXPECT_GT(failures, kPoints / 2);
}

TEST(AllocationFails, AStepEndsInAnErrorAndTheNextHasTheSameBits) { expect_step_recovers(false, 0); }
TEST(AllocationFails, NoneLeftForTheRestOfTheStep) { expect_step_recovers(true, 0); }

TEST(AllocationFails, SavingLeavesTheEarlierCheckpoint) {
  // Six hundred saves need no real fsync.
  testing::FailingFileCalls sound(testing::Fault::kIo, std::numeric_limits<std::int64_t>::max(), false);
  const ReplacedFileCalls replaced(sound);
  const std::vector<std::int64_t> chosen = points(allocations_of([] {
    const TempFolder folder;
    save_checkpoint(folder.path(), sample_content(2));
  }));
  for (const bool persistent : {false, true})
    for (const std::int64_t n : chosen) {
      const TempFolder folder;
      save_checkpoint(folder.path(), sample_content(1));
      ends_early(n, persistent, [&] { save_checkpoint(folder.path(), sample_content(2)); });
      const NewestCheckpoint newest = newest_intact(folder.path());
      ASSERT_TRUE(newest.found.has_value()) << n;
      EXPECT_TRUE(newest.rejected.empty()) << n;
      EXPECT_FALSE(diff_checkpoints(load_checkpoint(newest.found->path), sample_content(newest.found->step))
                       .has_value())
          << n;
      for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
        EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp")) << n;
    }
}

TEST(AllocationFails, LoadingChangesNothingAndWorksTheNextTime) {
  const TempFolder folder;
  Training training;
  training.step(0);
  CheckpointContent content = training.content();
  content.step = 1;
  const auto path = save_checkpoint(folder.path(), content);
  const auto load = [&] { training.trainer.load(load_checkpoint(path)); };
  int failures = 0;
  for (const bool persistent : {false, true})
    for (const std::int64_t n : points(allocations_of(load), kPoints / 3)) {
      failures += ends_early(n, persistent, load);
      ASSERT_NO_THROW(load()) << n;
      CheckpointContent now = training.content();
      now.step = content.step;
      ASSERT_FALSE(diff_checkpoints(now, content).has_value()) << n;
    }
  EXPECT_GT(failures, 20);
}

}  // namespace
}  // namespace tandem

// The caching allocator: exact bytes by category, reuse, and what happens when there is no memory.
#include "core/tensor/allocator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <set>

#include "core/base/error.h"
#include "core/tensor/tensor.h"

namespace tandem {
namespace {

// Host memory with a limit, which knows what is out.
class LimitedMemory final : public DeviceMemory {
 public:
  explicit LimitedMemory(std::size_t limit) : limit_(limit) {}
  ~LimitedMemory() override { EXPECT_TRUE(out_.empty()) << "blocks were leaked"; }
  void* allocate(std::size_t bytes) override {
    if (used_ + bytes > limit_) throw Error(ErrorKind::kResource, "[memory] none left");
    used_ += bytes;
    void* pointer = host_memory().allocate(bytes);
    out_.insert(pointer);
    return pointer;
  }
  void free(void* pointer, std::size_t bytes) override {
    EXPECT_EQ(out_.erase(pointer), 1u);
    used_ -= bytes;
    host_memory().free(pointer, bytes);
  }
  void copy(void*, const void*, std::size_t) override {}
  void copy_from_host(void*, const void*, std::size_t) override {}
  void copy_to_host(void*, const void*, std::size_t) override {}
  void zero(void*, std::size_t) override {}
  std::size_t used() const { return used_; }

 private:
  std::size_t limit_, used_ = 0;
  std::set<void*> out_;
};

constexpr auto kWeights = MemoryCategory::kWeights;
constexpr auto kActivations = MemoryCategory::kActivations;

std::int64_t current(const Allocator& allocator, MemoryCategory category) {
  return allocator.statistics().current[static_cast<std::size_t>(category)];
}

TEST(Allocator, RoundedSizes) {
  EXPECT_EQ(Allocator::rounded_size(1), 64u);
  EXPECT_EQ(Allocator::rounded_size(64), 64u);
  EXPECT_EQ(Allocator::rounded_size(65), 128u);
  EXPECT_EQ(Allocator::rounded_size(4096), 4096u);
  EXPECT_EQ(Allocator::rounded_size(4097), 4608u);
  EXPECT_EQ(Allocator::rounded_size(std::size_t{9} << 20), std::size_t{9} << 20);
  for (std::size_t bytes = 1; bytes < 200000; bytes += 37) {
    const std::size_t size = Allocator::rounded_size(bytes);
    ASSERT_GE(size, bytes);
    ASSERT_LE(static_cast<double>(size),
              bytes <= 4096 ? static_cast<double>(bytes + 63) : 1.125 * static_cast<double>(bytes));
    ASSERT_EQ(Allocator::rounded_size(size), size);
  }
}

TEST(Allocator, CountsExactBytesByCategory) {
  LimitedMemory memory(1 << 20);
  Allocator allocator(memory);
  void* a = allocator.allocate(100, kWeights);
  void* b = allocator.allocate(5000, kActivations);
  EXPECT_EQ(current(allocator, kWeights), 100);
  EXPECT_EQ(current(allocator, kActivations), 5000);
  EXPECT_EQ(allocator.statistics().total_current, 5100);
  EXPECT_EQ(allocator.statistics().reserved, 128 + 5120);
  allocator.free(b, 5000, kActivations);
  EXPECT_EQ(current(allocator, kActivations), 0);
  EXPECT_EQ(allocator.statistics().peak[static_cast<std::size_t>(kActivations)], 5000);
  EXPECT_EQ(allocator.statistics().total_peak, 5100);
  allocator.reset_peak();
  EXPECT_EQ(allocator.statistics().total_peak, 100);
  allocator.free(a, 100, kWeights);
  EXPECT_EQ(allocator.statistics().total_current, 0);
}

TEST(Allocator, ReusesBlocksOfTheSameClass) {
  LimitedMemory memory(1 << 20);
  Allocator allocator(memory);
  void* first = allocator.allocate(5000, kActivations);
  allocator.free(first, 5000, kActivations);
  EXPECT_EQ(allocator.allocate(4900, kWeights), first);
  EXPECT_EQ(allocator.statistics().device_allocations, 1);
  EXPECT_EQ(current(allocator, kWeights), 4900);
  void* other = allocator.allocate(4900, kWeights);
  EXPECT_NE(other, first);
  EXPECT_EQ(allocator.statistics().device_allocations, 2);
  allocator.free(first, 4900, kWeights);
  allocator.free(other, 4900, kWeights);
  allocator.empty_cache();
  EXPECT_EQ(allocator.statistics().reserved, 0);
  EXPECT_EQ(memory.used(), 0u);
}

TEST(Allocator, ZeroBytesAreNoBlock) {
  LimitedMemory memory(0);
  Allocator allocator(memory);
  EXPECT_EQ(allocator.allocate(0, kWeights), nullptr);
  allocator.free(nullptr, 0, kWeights);
  EXPECT_EQ(allocator.statistics().device_allocations, 0);
}

TEST(Allocator, BlocksAreAligned) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{100}, std::size_t{1} << 20, std::size_t{5} << 20}) {
    void* block = host_memory().allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % (bytes >= (std::size_t{4} << 20) ? 1 << 21 : 64), 0u);
    host_memory().free(block, bytes);
  }
}

TEST(Allocator, EmptiesTheCacheBeforeGivingUp) {
  LimitedMemory memory(4096);
  Allocator allocator(memory);
  allocator.free(allocator.allocate(4000, kActivations), 4000, kActivations);
  void* small = allocator.allocate(1000, kActivations);  // fits only when the 4032 cached bytes are returned
  EXPECT_EQ(memory.used(), 1024u);
  EXPECT_EQ(allocator.statistics().reserved, 1024);
  allocator.free(small, 1000, kActivations);
}

TEST(Allocator, SaysWhatUsesTheMemory) {
  LimitedMemory memory(std::size_t{8} << 20);
  Allocator allocator(memory);
  void* weights = allocator.allocate(std::size_t{6} << 20, kWeights);
  try {
    allocator.allocate(std::size_t{4} << 20, kActivations);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.text(), "[memory] none left for activations; in use: weights 6 MiB");
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
    EXPECT_NE(error.hint(), "");
  }
  EXPECT_EQ(current(allocator, kActivations), 0);
  allocator.free(weights, std::size_t{6} << 20, kWeights);
}

TEST(Allocator, TensorsCountUnderTheirCategory) {
  const auto allocator = allocator_of(kCpuDevice);
  const std::int64_t before = current(*allocator, MemoryCategory::kOptimizer);
  {
    const Tensor moment = Tensor::zeros({3, 5}, DType::kF32, kCpuDevice, MemoryCategory::kOptimizer);
    const Tensor view = moment.slice_channels(1, 2);
    EXPECT_EQ(current(*allocator, MemoryCategory::kOptimizer) - before, 60);
  }
  EXPECT_EQ(current(*allocator, MemoryCategory::kOptimizer), before);
}

// 2^60 elements of 8 bytes are 2^63 bytes: refused by the machine, not wrapped to a small number.
TEST(Allocator, HugeTensorsAreRefused) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer ends the process for such sizes";
#endif
  const std::int64_t side = std::int64_t{1} << 30;
  EXPECT_THROW(Tensor(Shape{side, side}, DType::kF64), Error);
  EXPECT_THROW(Shape({side, side, 2}), Error);
}

TEST(Allocator, NoCudaWithoutAPlugIn) {
  try {
    allocator_of({DeviceKind::kCuda, 0});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.text(), "[device] cuda:0: no backend for this device is loaded");
    EXPECT_EQ(exit_code(error.kind()), 7);
  }
}

}  // namespace
}  // namespace tandem

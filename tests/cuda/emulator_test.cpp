// What the emulator finds: threads that do not meet, memory that is not the device's, values that were never
// written; and what the backend makes of a device's failures.
#include "tests/cuda/emulator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/cuda_launch.h"
#include "core/base/error.h"

namespace tandem::testing {
namespace {

using cuda::Status;

TEST(FiberBlock, ThreadsMeetAtBarriersAndInExchanges) {
  FiberBlock block;
  std::vector<int> order, values(64);
  EXPECT_EQ(block.run(64,
                      [&] {
                        order.push_back(block.thread());
                        block.sync();
                        ASSERT_EQ(order.size(), 64u);
                        for (int mask = 1; mask < 32; mask *= 2) {
                          double x = block.thread();
                          block.exchange(&x, sizeof x, mask);
                          ASSERT_EQ(x, block.thread() ^ mask);
                        }
                        values[static_cast<std::size_t>(block.thread())] = 1;
                      }),
            "");
  EXPECT_EQ(std::set<int>(values.begin(), values.end()), std::set<int>{1});
}

// What a warp leaves in shared memory must be protected by barriers, both ways: without one a warp is ahead.
TEST(FiberBlock, WarpsRunAheadBetweenBarriers) {
  FiberBlock block;
  std::vector<int> firsts;
  for (int run = 0; run < 2; ++run) {
    std::vector<int> ended;
    block.run(96, [&] {
      for (int i = 0; i < 3; ++i) {
        float x = 0;
        block.exchange(&x, sizeof x, 1);
      }
      ended.push_back(block.thread() / FiberBlock::kWarp);
      block.sync();
    });
    EXPECT_TRUE(std::is_sorted(ended.begin(), ended.end()) || std::is_sorted(ended.rbegin(), ended.rend()));
    firsts.push_back(ended.front());
  }
  EXPECT_EQ(firsts, (std::vector<int>{0, 2}));
}

TEST(FiberBlock, NamesWhatIsNotReachedByAll) {
  FiberBlock block;
  const auto at_barrier = [&] {
    if (block.thread() < 40) block.sync();
  };
  EXPECT_EQ(block.run(64, at_barrier), "a barrier that 24 threads of a block do not reach");
  const auto in_exchange = [&] {
    float x = 0;
    if (block.thread() % 2 == 0) block.exchange(&x, sizeof x, 2);
  };
  EXPECT_EQ(block.run(64, in_exchange), "an exchange that 16 threads of a warp do not reach");
  EXPECT_EQ(block.run(64, [&] { block.sync(); }), "");  // and goes on
  EXPECT_EQ(block.run(48, [] {}), "a block of 48 threads");
}

TEST(Emulator, MemoryIsNanUntilItIsWritten) {
  forget_device_memory();
  const Tensor fresh(Shape{3, 5}, DType::kF16, emulated_device());
  for (const double value : fresh.to_values()) EXPECT_TRUE(std::isnan(value));
  EXPECT_EQ(Tensor::zeros(Shape{3}, DType::kF32, emulated_device()).to_values(), (std::vector<double>(3, 0)));
}

TEST(Emulator, RefusesMemoryThatIsNotItsOwn) {
  Emulator device;
  void* pointer = nullptr;
  ASSERT_EQ(device.allocate(100, &pointer), Status::kOk);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % 256, 0u);
  float host[50] = {};
  EXPECT_EQ(device.copy_from_host(pointer, host, 100), Status::kOk);
  EXPECT_EQ(device.copy_from_host(pointer, host, 101), Status::kFailed);
  EXPECT_EQ(device.copy_to_host(host, host, 4), Status::kFailed);
  EXPECT_EQ(device.copy(host, pointer, 4), Status::kFailed);
  EXPECT_EQ(device.zero(host, 4), Status::kFailed);
  EXPECT_EQ(device.free(host), Status::kFailed);
  EXPECT_EQ(device.bytes_in_use(), 100u);
  EXPECT_EQ(device.free(pointer), Status::kOk);
  EXPECT_EQ(device.bytes_in_use(), 0u);
}

TEST(Emulator, RefusesKernelsThatAreNotInTheList) {
  Emulator device;
  const cuda::NormFixed functor{0, 0, nullptr, nullptr};
  EXPECT_EQ(device.launch(-1, {1, 256}, &functor, sizeof functor), Status::kFailed);
  EXPECT_EQ(device.launch(cuda::KernelList::kCount, {1, 256}, &functor, sizeof functor), Status::kFailed);
  EXPECT_EQ(device.launch(cuda::kernel_id<cuda::NormFixed>(), {1, 256}, &functor, 8), Status::kFailed);
  EXPECT_EQ(device.launch(cuda::kernel_id<cuda::NormFixed>(), {1, 256}, &functor, sizeof functor),
            Status::kOk);
}

TEST(KernelList, NamesAreUnique) {
  const std::set<std::string_view> names(std::begin(cuda::kKernelNames), std::end(cuda::kKernelNames));
  EXPECT_EQ(names.size(), std::size(cuda::kKernelNames));
  constexpr std::int32_t kFirst = cuda::kernel_id<cuda::Map<kernels::Copy, float>>(),
                         kLast = cuda::kernel_id<cuda::OptimizerUpdate<cuda::RmsProp<true, true>>>();
  EXPECT_EQ(kFirst, 0);
  EXPECT_EQ(kLast, cuda::KernelList::kCount - 1);
  EXPECT_EQ(cuda::kKernelNames[kFirst], "Map<kernels::Copy, float>");
}

// Beyond 2^31 and 2^32 elements.
TEST(KernelIndices, AreOf64Bits) {
  for (const std::int64_t i : {std::int64_t{0}, (std::int64_t{1} << 31) + 5, (std::int64_t{1} << 32) - 1,
                               (std::int64_t{1} << 32) + 7, (std::int64_t{1} << 52) + 3})
    for (const std::int64_t columns :
         {std::int64_t{1}, std::int64_t{3}, std::int64_t{320}, std::int64_t{1} << 33}) {
      const cuda::Place at = cuda::split(i, columns);
      EXPECT_EQ(at.row * columns + at.column, i);
      EXPECT_TRUE(at.column >= 0 && at.column < columns);
      const std::int64_t size[3] = {64, 4096, 8192};
      const cuda::Voxel v = cuda::voxel_of(i, size);
      EXPECT_EQ(((v.n * size[0] + v.at[0]) * size[1] + v.at[1]) * size[2] + v.at[2], i);
    }
}

// The 16-bit conversions of the kernels are half.h's, bit for bit.
TEST(KernelConversions, EqualTheHostsForAllHalvesAndTies) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const Half h{static_cast<std::uint16_t>(bits)};
    const BFloat16 b{static_cast<std::uint16_t>(bits)};
    ASSERT_EQ(kernels::float_bits(cuda::widen(h)), kernels::float_bits(to_float(h)));
    ASSERT_EQ(kernels::float_bits(cuda::widen(b)), kernels::float_bits(to_float(b)));
  }
  for (std::uint64_t step = 0; step < (std::uint64_t{1} << 32); step += 4093) {
    for (const std::uint32_t low : {0u, 0x0fffu, 0x1000u, 0x7fffu, 0x8000u}) {
      const float x = kernels::bits_float(static_cast<std::int32_t>(static_cast<std::uint32_t>(step) ^ low));
      ASSERT_EQ(cuda::narrow<Half>(x).bits, to_half(x).bits);
      ASSERT_EQ(cuda::narrow<BFloat16>(x).bits, to_bfloat16(x).bits);
    }
  }
}

template <class Body>
Error error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kInternal, "no error");
}

TEST(CudaErrors, NameTheDevicesReason) {
  forget_device_memory();
  emulator().set_memory(emulator().bytes_in_use() + 1000);
  const Error memory =
      error_of([] { Tensor(Shape{1000}, DType::kF32, emulated_device(), MemoryCategory::kActivations); });
  emulator().set_memory(SIZE_MAX);
  EXPECT_EQ(memory.kind(), ErrorKind::kResource);
  EXPECT_NE(memory.text().find("[memory] 4032 bytes of the device could not be allocated for activations"),
            std::string::npos)
      << memory.text();

  const cuda::NormFixed functor{1, 0, nullptr, nullptr};
  const Error device = error_of([&] {
    cuda::require(emulator(), emulator().launch(-1, {1, 256}, &functor, 0), "a kernel");
  });
  EXPECT_EQ(device.kind(), ErrorKind::kDevice);
  EXPECT_EQ(device.text(), "[cuda] a kernel: a kernel that is not in the list");

  const Error wide = error_of([] {
    const Tensor x(Shape{2, 3}, DType::kF64, emulated_device());
    backend_of(emulated_device()).map({.kernel = MapKernel::kCopy}, {{x}}, x);
  });
  EXPECT_EQ(wide.kind(), ErrorKind::kShape);
  EXPECT_EQ(wide.text(), "[cuda] dtype: got F64 [2, 3], expected F32, F16 or BF16");
}

}  // namespace
}  // namespace tandem::testing

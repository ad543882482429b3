// A CUDA device on host memory for tests: kernels run by blocks and threads from the same functors as on the
// device, vendor calls are plain loops. Memory that was never written is NaN.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/backends/cuda/device_api.h"
#include "core/tensor/device.h"
#include "tests/cuda/fiber_block.h"

namespace tandem::testing {

class Emulator final : public cuda::DeviceApi {
 public:
  Emulator();
  ~Emulator() override;

  cuda::Status allocate(std::size_t bytes, void** pointer) override;
  cuda::Status free(void* pointer) override;
  cuda::Status copy(void* to, const void* from, std::size_t bytes) override;
  cuda::Status copy_from_host(void* to, const void* from, std::size_t bytes) override;
  cuda::Status copy_to_host(void* to, const void* from, std::size_t bytes) override;
  cuda::Status zero(void* pointer, std::size_t bytes) override;
  // Blocks from the last to the first, so that no result depends on their order; indices of grid functors
  // backwards too.
  cuda::Status launch(std::int32_t id, const cuda::Grid& grid, const void* functor,
                      std::size_t bytes) override;
  // emulator_vendor.cpp: sums in double, rounded once.
  cuda::Status gemm(const cuda::GemmCall& call) override;
  cuda::Status conv(const cuda::ConvCall& call) override;
  cuda::Status synchronize() override { return cuda::Status::kOk; }
  const char* last_error() const override { return error_.c_str(); }

  // Bytes that may be allocated, for tests of what happens without.
  void set_memory(std::size_t bytes) { memory_ = bytes; }
  std::size_t bytes_in_use() const { return in_use_; }
  // Launches of each kernel since the start.
  const std::vector<std::int64_t>& launches() const { return launches_; }

 private:
  cuda::Status fail(std::string text);
  // Whether [pointer, pointer + bytes) lies in one allocation.
  bool owns(const void* pointer, std::size_t bytes) const;

  std::map<const std::byte*, std::size_t> allocations_;
  std::size_t in_use_ = 0, memory_ = SIZE_MAX;
  std::vector<std::int64_t> launches_;
  FiberBlock fibers_;
  std::string error_;
};

// The process's emulator.
Emulator& emulator();
// cuda:0 on it: its backend and allocator are registered with the first call.
Device emulated_device();
// Gives cached device memory back, so that what is allocated next is NaN.
void forget_device_memory();

}  // namespace tandem::testing

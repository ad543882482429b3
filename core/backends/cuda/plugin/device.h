// DeviceApi on one CUDA device: memory, copies, one non-blocking stream. Compiled with CUDA headers, into the
// plug-in alone.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "core/backends/cuda/device_api.h"

namespace tandem::cuda {

class Device final : public DeviceApi {
 public:
  // The device of CUDA's own number `ordinal`; null and the reason in last_failure() where it cannot be
  // opened.
  static std::unique_ptr<Device> open(int ordinal);
  ~Device() override;

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Status allocate(std::size_t bytes, void** pointer) override;
  Status free(void* pointer) override;
  Status copy(void* to, const void* from, std::size_t bytes) override;
  Status copy_from_host(void* to, const void* from, std::size_t bytes) override;
  Status copy_to_host(void* to, const void* from, std::size_t bytes) override;
  Status zero(void* pointer, std::size_t bytes) override;
  Status launch(std::int32_t id, const Grid& grid, const void* functor, std::size_t bytes) override;
  Status gemm(const GemmCall& call) override;
  Status conv(const ConvCall& call) override;
  Status synchronize() override;
  const char* last_error() const override;

 private:
  explicit Device(int ordinal) : ordinal_(ordinal) {}
  // CUDA's current device is a property of the calling thread.
  Status enter() const;

  int ordinal_;
  cudaStream_t stream_ = nullptr;
};

// The text of the last failure of this thread, "" before the first.
const char* last_failure();

}  // namespace tandem::cuda

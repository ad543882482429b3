// A CUDA device's memory for the caching allocator, over the device's interface.
#pragma once

#include "core/backends/cuda/device_api.h"
#include "core/tensor/device_memory.h"

namespace tandem::cuda {

// `api` must outlive it. Copies are ordered with the kernels; those from and to the host wait.
class CudaMemory final : public DeviceMemory {
 public:
  explicit CudaMemory(DeviceApi& api) : api_(api) {}

  void* allocate(std::size_t bytes) override;
  void free(void* pointer, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void copy_from_host(void* to, const void* from, std::size_t bytes) override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void zero(void* pointer, std::size_t bytes) override;

 private:
  DeviceApi& api_;
};

// Throws Error{kResource} (no memory) or Error{kDevice} with the device's own words unless `status` is kOk.
void require(const DeviceApi& api, Status status, const char* what);

}  // namespace tandem::cuda

// Calls of the device's interface; its failures as Error.
#include "core/backends/cuda/cuda_memory.h"

#include "core/base/error.h"

namespace tandem::cuda {

void require(const DeviceApi& api, Status status, const char* what) {
  if (status == Status::kOk) return;
  if (status == Status::kOutOfMemory)
    throw Error(ErrorKind::kResource, fmt::format("[cuda] {}: out of device memory", what),
                "Lower train.batch_size or patch.size.");
  throw Error(ErrorKind::kDevice, fmt::format("[cuda] {}: {}", what, api.last_error()),
              status == Status::kNotSupported ? "Use device: cpu." : "");
}

void* CudaMemory::allocate(std::size_t bytes) {
  void* pointer = nullptr;
  const Status status = api_.allocate(bytes, &pointer);
  // The allocator adds what is in use and what to do.
  if (status == Status::kOutOfMemory)
    throw Error(ErrorKind::kResource,
                fmt::format("[memory] {} bytes of the device could not be allocated", bytes));
  require(api_, status, "allocate");
  return pointer;
}

// No error: memory is freed by destructors, and a device that failed says so at its next call.
void CudaMemory::free(void* pointer, std::size_t) { static_cast<void>(api_.free(pointer)); }

void CudaMemory::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) require(api_, api_.copy(to, from, bytes), "copy");
}

void CudaMemory::copy_from_host(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) require(api_, api_.copy_from_host(to, from, bytes), "copy from the host");
}

void CudaMemory::copy_to_host(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) require(api_, api_.copy_to_host(to, from, bytes), "copy to the host");
}

void CudaMemory::zero(void* pointer, std::size_t bytes) {
  if (bytes > 0) require(api_, api_.zero(pointer, bytes), "zero");
}

}  // namespace tandem::cuda

// Raw memory of one device: the interface that each backend's memory implements, and the host's own. Caching
// and accounting are the Allocator's subject.
#pragma once

#include <cstddef>

namespace tandem {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // 64-byte aligned, uninitialised; throws Error{kResource} with the size when there is none left.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* pointer, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;  // within the device
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes) = 0;
  virtual void zero(void* pointer, std::size_t bytes) = 0;
};

// Host memory: aligned to 64 bytes, from 4 MiB on aligned to 2 MiB with huge-page advice.
DeviceMemory& host_memory();

}  // namespace tandem

// The caching allocator: one per device, exact current and peak bytes by category. Knows nothing of tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/tensor/device.h"
#include "core/tensor/device_memory.h"

namespace tandem {

// What memory is for; the order is that of reports.
enum class MemoryCategory { kWeights, kGradients, kOptimizer, kActivations, kWorkspace, kData, kOther };
inline constexpr std::size_t kMemoryCategories = 7;
std::string_view name(MemoryCategory category);

// Exact requested bytes; `reserved` is what the device gave, cached blocks included.
struct MemoryStatistics {
  std::array<std::int64_t, kMemoryCategories> current{}, peak{};
  std::int64_t total_current = 0, total_peak = 0;
  std::int64_t reserved = 0;
  std::int64_t device_allocations = 0;  // calls to DeviceMemory::allocate since the start
};

// Hands out blocks and keeps freed ones for the next request of the same rounded size. Thread-safe.
class Allocator {
 public:
  explicit Allocator(DeviceMemory& memory) : memory_(memory) {}
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // A block of at least `bytes`, uninitialised; nullptr for 0. When the device is out of memory the cache is
  // emptied and the request repeated once; then Error{kResource} names the request and the bytes in use by
  // category.
  void* allocate(std::size_t bytes, MemoryCategory category);
  void free(void* pointer, std::size_t bytes, MemoryCategory category);

  void empty_cache();
  MemoryStatistics statistics() const;
  void reset_peak();
  DeviceMemory& memory() { return memory_; }

  // Size classes: multiples of 64 bytes up to 4 KiB, above that eighths of a power of two (at most 12.5 %
  // waste).
  static std::size_t rounded_size(std::size_t bytes);

 private:
  DeviceMemory& memory_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> cached_;
  MemoryStatistics statistics_;
};

// The allocator of `device`; host memory for cpu and reference. A CUDA plug-in registers its own with
// register_allocator before the first use. Throws Error{kDevice} if the device has none.
std::shared_ptr<Allocator> allocator_of(const Device& device);
void register_allocator(const Device& device, std::shared_ptr<Allocator> allocator);

}  // namespace tandem

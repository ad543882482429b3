// Host memory, the caching allocator and the table device -> allocator.
#include "core/tensor/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace tandem {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

class HostMemory final : public DeviceMemory {
 public:
  void* allocate(std::size_t bytes) override {
    const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : 64;
    const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
    void* pointer = std::aligned_alloc(alignment, size);
    if (pointer == nullptr)
      throw Error(ErrorKind::kResource, fmt::format("[memory] {} bytes could not be allocated", bytes));
    if (alignment == kHugePage) ::madvise(pointer, size, MADV_HUGEPAGE);  // advice: failure costs only speed
    return pointer;
  }
  void free(void* pointer, std::size_t) override { std::free(pointer); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void copy_from_host(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void zero(void* pointer, std::size_t bytes) override {
    if (bytes > 0) std::memset(pointer, 0, bytes);
  }
};

struct AllocatorTable {
  std::mutex mutex;
  std::vector<std::pair<Device, std::shared_ptr<Allocator>>> rows;
};

AllocatorTable& allocator_table() {
  static AllocatorTable table;
  return table;
}

std::string usage_text(const MemoryStatistics& statistics) {
  std::string text;
  for (std::size_t i = 0; i < kMemoryCategories; ++i)
    if (statistics.current[i] > 0)
      text += fmt::format("{}{} {} MiB", text.empty() ? "" : ", ", name(static_cast<MemoryCategory>(i)),
                          statistics.current[i] >> 20);
  return text.empty() ? "nothing" : text;
}

}  // namespace

DeviceMemory& host_memory() {
  // Never destroyed: backends and their caches give memory back in the order of their own destruction at
  // exit.
  static HostMemory& memory = *new HostMemory;
  return memory;
}

std::string_view name(MemoryCategory category) {
  static constexpr std::array<std::string_view, kMemoryCategories> kNames{
      "weights", "gradients", "optimizer", "activations", "workspace", "data", "other"};
  return kNames[static_cast<std::size_t>(category)];
}

std::size_t Allocator::rounded_size(std::size_t bytes) {
  if (bytes <= 4096) return (bytes + 63) / 64 * 64;
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

Allocator::~Allocator() { empty_cache(); }

void* Allocator::allocate(std::size_t bytes, MemoryCategory category) {
  if (bytes == 0) return nullptr;
  const std::size_t size = rounded_size(bytes);
  void* pointer = nullptr;
  const std::lock_guard lock(mutex_);
  if (auto it = cached_.find(size); it != cached_.end() && !it->second.empty()) {
    pointer = it->second.back();
    it->second.pop_back();
  } else {
    try {
      pointer = memory_.allocate(size);
    } catch (const Error&) {
      for (auto& [cached_size, blocks] : cached_)
        for (void* block : blocks)
          memory_.free(block, cached_size), statistics_.reserved -= static_cast<std::int64_t>(cached_size);
      cached_.clear();
      try {
        pointer = memory_.allocate(size);
      } catch (const Error& error) {
        throw Error(
            ErrorKind::kResource,
            fmt::format("{} for {}; in use: {}", error.text(), name(category), usage_text(statistics_)),
            "Lower train.batch_size or patch.size.");
      }
    }
    statistics_.reserved += static_cast<std::int64_t>(size);
    ++statistics_.device_allocations;
  }
  const auto i = static_cast<std::size_t>(category);
  const auto count = static_cast<std::int64_t>(bytes);
  statistics_.current[i] += count;
  statistics_.peak[i] = std::max(statistics_.peak[i], statistics_.current[i]);
  statistics_.total_current += count;
  statistics_.total_peak = std::max(statistics_.total_peak, statistics_.total_current);
  return pointer;
}

void Allocator::free(void* pointer, std::size_t bytes, MemoryCategory category) {
  if (pointer == nullptr) return;
  const std::lock_guard lock(mutex_);
  cached_[rounded_size(bytes)].push_back(pointer);
  statistics_.current[static_cast<std::size_t>(category)] -= static_cast<std::int64_t>(bytes);
  statistics_.total_current -= static_cast<std::int64_t>(bytes);
}

void Allocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  for (auto& [size, blocks] : cached_)
    for (void* block : blocks) {
      memory_.free(block, size);
      statistics_.reserved -= static_cast<std::int64_t>(size);
    }
  cached_.clear();
}

MemoryStatistics Allocator::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void Allocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  statistics_.peak = statistics_.current;
  statistics_.total_peak = statistics_.total_current;
}

std::shared_ptr<Allocator> allocator_of(const Device& device) {
  AllocatorTable& table = allocator_table();
  const std::lock_guard lock(table.mutex);
  for (const auto& [known, allocator] : table.rows)
    if (known == device) return allocator;
  if (device.kind == DeviceKind::kCuda)
    fail(ErrorKind::kDevice, "[device] {}: no backend for this device is loaded", name(device));
  table.rows.emplace_back(device, std::make_shared<Allocator>(host_memory()));
  return table.rows.back().second;
}

void register_allocator(const Device& device, std::shared_ptr<Allocator> allocator) {
  AllocatorTable& table = allocator_table();
  const std::lock_guard lock(table.mutex);
  table.rows.emplace_back(device, std::move(allocator));
}

std::string name(const Device& device) {
  switch (device.kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return fmt::format("cuda:{}", device.index);
    case DeviceKind::kReference:
      return "reference";
  }
  return "?";
}

}  // namespace tandem

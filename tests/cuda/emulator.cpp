// Memory and kernels of the emulated device.
#include "tests/cuda/emulator.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/cuda_memory.h"
#include "core/backends/cuda/kernel_list.h"

namespace tandem::testing {

using cuda::Grid, cuda::Status;

namespace {

constexpr int kPoison = 0xff;  // NaN in every float format

// What a block functor sees.
template <class Shared>
class EmulatedBlock {
 public:
  EmulatedBlock(FiberBlock& fibers, Shared& shared, std::int64_t index)
      : fibers_(fibers), shared_(shared), index_(index) {}

  std::int64_t index() const { return index_; }
  int thread() const { return fibers_.thread(); }
  Shared& shared() const { return shared_; }
  void sync() const { fibers_.sync(); }
  template <class T>
  T exchange(T x, int mask) const {
    fibers_.exchange(&x, sizeof x, mask);
    return x;
  }

 private:
  FiberBlock& fibers_;
  Shared& shared_;
  std::int64_t index_;
};

template <class F>
std::string run_grid(const F& functor, const Grid& grid) {
  const std::int64_t step = grid.blocks * grid.threads;
  for (std::int64_t first = step; first-- > 0;)
    for (std::int64_t i = first; i < functor.count; i += step) functor(i);
  return "";
}

template <class F>
std::string run_blocks(const F& functor, const Grid& grid, FiberBlock& fibers) {
  using Shared = typename F::Shared;
  if (grid.threads != cuda::kBlockThreads) return "a block kernel with another number of threads";
  const std::unique_ptr<Shared> shared(new Shared);  // its end is watched by AddressSanitizer
  for (std::int64_t index = grid.blocks; index-- > 0;) {
    std::memset(static_cast<void*>(shared.get()), kPoison, sizeof(Shared));
    EmulatedBlock<Shared> block(fibers, *shared, index);
    std::string error = fibers.run(grid.threads, [&] { functor(block); });
    if (!error.empty()) return error;
  }
  return "";
}

struct KernelEntry {
  std::size_t bytes;
  std::string (*run)(const void* functor, const Grid& grid, FiberBlock& fibers);
};

template <class F>
std::string run_kernel(const void* bytes, const Grid& grid, FiberBlock& fibers) {
  alignas(F) std::byte memory[sizeof(F)];
  std::memcpy(memory, bytes, sizeof(F));
  const F& functor = *reinterpret_cast<const F*>(memory);
  if constexpr (cuda::BlockFunctor<F>) {
    return run_blocks(functor, grid, fibers);
  } else {
    static_cast<void>(fibers);
    return run_grid(functor, grid);
  }
}

template <class... Functors>
std::vector<KernelEntry> entries_of(cuda::KernelTypes<Functors...>) {
  return {KernelEntry{sizeof(Functors), &run_kernel<Functors>}...};
}

const std::vector<KernelEntry>& kernel_entries() {
  static const std::vector<KernelEntry> entries = entries_of(cuda::KernelList{});
  return entries;
}

}  // namespace

Emulator::Emulator() : launches_(static_cast<std::size_t>(cuda::KernelList::kCount)) {}

Emulator::~Emulator() {
  for (const auto& [pointer, bytes] : allocations_) std::free(const_cast<std::byte*>(pointer));
}

Status Emulator::fail(std::string text) {
  error_ = std::move(text);
  return Status::kFailed;
}

bool Emulator::owns(const void* pointer, std::size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(pointer);
  auto it = allocations_.upper_bound(first);
  if (it == allocations_.begin()) return false;
  --it;
  return first + bytes <= it->first + it->second;
}

Status Emulator::allocate(std::size_t bytes, void** pointer) {
  *pointer = nullptr;
  if (bytes > memory_ - std::min(memory_, in_use_)) return Status::kOutOfMemory;
  if (posix_memalign(pointer, 256, std::max<std::size_t>(bytes, 1)) != 0) return Status::kOutOfMemory;
  std::memset(*pointer, kPoison, bytes);
  allocations_[static_cast<std::byte*>(*pointer)] = bytes;
  in_use_ += bytes;
  return Status::kOk;
}

Status Emulator::free(void* pointer) {
  if (pointer == nullptr) return Status::kOk;
  const auto it = allocations_.find(static_cast<std::byte*>(pointer));
  if (it == allocations_.end()) return fail("free of memory that is not the device's");
  in_use_ -= it->second;
  allocations_.erase(it);
  std::free(pointer);
  return Status::kOk;
}

Status Emulator::copy(void* to, const void* from, std::size_t bytes) {
  if (!owns(to, bytes) || !owns(from, bytes)) return fail("copy beyond the device's memory");
  std::memmove(to, from, bytes);
  return Status::kOk;
}

Status Emulator::copy_from_host(void* to, const void* from, std::size_t bytes) {
  if (!owns(to, bytes) || owns(from, bytes)) return fail("copy from the host: wrong memory");
  std::memcpy(to, from, bytes);
  return Status::kOk;
}

Status Emulator::copy_to_host(void* to, const void* from, std::size_t bytes) {
  if (owns(to, bytes) || !owns(from, bytes)) return fail("copy to the host: wrong memory");
  std::memcpy(to, from, bytes);
  return Status::kOk;
}

Status Emulator::zero(void* pointer, std::size_t bytes) {
  if (!owns(pointer, bytes)) return fail("zero beyond the device's memory");
  std::memset(pointer, 0, bytes);
  return Status::kOk;
}

Status Emulator::launch(std::int32_t id, const Grid& grid, const void* functor, std::size_t bytes) {
  const auto& entries = kernel_entries();
  if (id < 0 || id >= cuda::KernelList::kCount) return fail("a kernel that is not in the list");
  const KernelEntry& entry = entries[static_cast<std::size_t>(id)];
  if (bytes != entry.bytes) return fail("a functor of another size than its kernel's");
  ++launches_[static_cast<std::size_t>(id)];
  std::string error = entry.run(functor, grid, fibers_);
  return error.empty() ? Status::kOk : fail(std::move(error));
}

Emulator& emulator() {
  static Emulator& emulator = *new Emulator;  // outlives the tables of backends and allocators
  return emulator;
}

Device emulated_device() {
  static const Device device = [] {
    const Device first{DeviceKind::kCuda, 0};
    static cuda::CudaMemory& memory = *new cuda::CudaMemory(emulator());
    register_allocator(first, std::make_shared<Allocator>(memory));
    register_backend(std::make_unique<cuda::CudaBackend>(emulator(), 0));
    return first;
  }();
  return device;
}

void forget_device_memory() { allocator_of(emulated_device())->empty_cache(); }

}  // namespace tandem::testing

// Grid and block functors as kernels, and the table of their launchers.
#include <cstring>

#include "core/backends/cuda/kernel_list.h"
#include "core/backends/cuda/plugin/launch.h"

namespace tandem::cuda {
namespace {

// Blocks in one launch; kernels walk over the rest.
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 30;
constexpr int kGridThreads = 256;

// What a block functor sees.
template <class Shared>
class DeviceBlock {
 public:
  __device__ DeviceBlock(Shared& shared, std::int64_t index) : shared_(shared), index_(index) {}

  __device__ std::int64_t index() const { return index_; }
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ Shared& shared() const { return shared_; }
  __device__ void sync() const { __syncthreads(); }
  template <class T>
  __device__ T exchange(T x, int mask) const {
    return __shfl_xor_sync(0xffffffffu, x, mask);
  }

 private:
  Shared& shared_;
  std::int64_t index_;
};

template <class F>
__global__ void __launch_bounds__(kGridThreads) run_grid(const F functor) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < functor.count; i += step) functor(i);
}

template <class F>
__global__ void __launch_bounds__(kBlockThreads) run_blocks(const F functor, std::int64_t blocks) {
  __shared__ typename F::Shared shared;
  for (std::int64_t index = blockIdx.x; index < blocks; index += gridDim.x) {
    DeviceBlock<typename F::Shared> block(shared, index);
    functor(block);
    __syncthreads();  // `shared` goes to the next one
  }
}

template <class F>
cudaError_t launch_functor(const Grid& grid, const void* bytes, cudaStream_t stream) {
  alignas(F) unsigned char memory[sizeof(F)];
  std::memcpy(memory, bytes, sizeof(F));
  const F& functor = *reinterpret_cast<const F*>(memory);
  const auto blocks = static_cast<unsigned>(grid.blocks < kMostBlocks ? grid.blocks : kMostBlocks);
  const auto threads = static_cast<unsigned>(grid.threads);
  if constexpr (BlockFunctor<F>) {
    if (grid.threads != kBlockThreads) return cudaErrorInvalidValue;
    run_blocks<F><<<blocks, threads, 0, stream>>>(functor, grid.blocks);
  } else {
    if (grid.threads > kGridThreads) return cudaErrorInvalidValue;
    run_grid<F><<<blocks, threads, 0, stream>>>(functor);
  }
  return cudaGetLastError();
}

struct Launcher {
  std::size_t bytes;
  cudaError_t (*launch)(const Grid& grid, const void* functor, cudaStream_t stream);
};

template <class List>
struct Launchers;
template <class... Functors>
struct Launchers<KernelTypes<Functors...>> {
  static constexpr Launcher kTable[] = {{sizeof(Functors), &launch_functor<Functors>}...};
};

}  // namespace

cudaError_t launch_kernel(std::int32_t id, const Grid& grid, const void* functor, std::size_t bytes,
                          cudaStream_t stream) {
  if (id < 0 || id >= KernelList::kCount || grid.blocks < 1) return cudaErrorInvalidValue;
  const Launcher& launcher = Launchers<KernelList>::kTable[id];
  if (bytes != launcher.bytes) return cudaErrorInvalidValue;
  return launcher.launch(grid, functor, stream);
}

}  // namespace tandem::cuda

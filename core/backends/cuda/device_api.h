// What a CUDA device does for the backend above it: memory, kernels by name, vendor calls, in one ordered
// queue. Implemented by the plug-in (CUDA) and by the emulator (host memory, for tests). Plain data alone
// crosses it: no tensor, no exception, no symbol of the program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor/dtype.h"

namespace tandem::cuda {

// How a call ended. The text of the last failure of a thread: DeviceApi::last_error.
enum class Status : std::int32_t { kOk = 0, kOutOfMemory = 1, kFailed = 2, kNotSupported = 3 };

// Of a grid functor blocks * threads may be more or less than its indices: it tests them and walks on. Of a
// block functor all `blocks` are run, in any order (kernels/block.h). threads: a multiple of 32, at most
// 1024.
struct Grid {
  std::int64_t blocks = 1;
  std::int32_t threads = 256;
};

// Rows and channels of device memory: element (r, c) at data[r * pitch + c].
struct DeviceMatrix {
  void* data = nullptr;  // null: absent
  DType dtype = DType::kF32;
  std::int64_t rows = 0, channels = 0, pitch = 0;
};

// c (+)= op(a) op(b), sums in FP32: GemmArgs of core/backends/kernel_args.h.
struct GemmCall {
  DeviceMatrix a, b, c;
  bool transpose_a = false, transpose_b = false, accumulate = false;
};

enum class ConvPass : std::int32_t { kForward, kBackwardData, kBackwardWeights };

// One pass of a convolution: ConvGeometry's numbers, channels-last volumes, weights K, taps, C. bias: F32,
// forward alone, may be null. Weight gradients are added to w (F32).
struct ConvCall {
  ConvPass pass = ConvPass::kForward;
  std::int32_t spatial_rank = 3;
  std::int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;
  std::int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1},
               dilation[3] = {1, 1, 1}, padding[3] = {0, 0, 0};
  DeviceMatrix x, w, y;
  const float* bias = nullptr;
};

class DeviceApi {
 public:
  virtual ~DeviceApi() = default;

  // 256-byte aligned, uninitialised; null and kOutOfMemory where there is none left.
  virtual Status allocate(std::size_t bytes, void** pointer) = 0;
  virtual Status free(void* pointer) = 0;
  // In the queue, ordered with the kernels; host memory is read or written when the call returns.
  virtual Status copy(void* to, const void* from, std::size_t bytes) = 0;  // within the device
  virtual Status copy_from_host(void* to, const void* from, std::size_t bytes) = 0;
  virtual Status copy_to_host(void* to, const void* from, std::size_t bytes) = 0;
  virtual Status zero(void* pointer, std::size_t bytes) = 0;

  // Kernel `id` of kernel_list.h over the grid; `functor`: its object of `bytes` bytes, copied by the call.
  virtual Status launch(std::int32_t id, const Grid& grid, const void* functor, std::size_t bytes) = 0;
  virtual Status gemm(const GemmCall& call) = 0;
  virtual Status conv(const ConvCall& call) = 0;
  // Waits until the queue is empty.
  virtual Status synchronize() = 0;

  virtual const char* last_error() const = 0;
};

}  // namespace tandem::cuda

// Memory and copies through the CUDA runtime, all in the device's one stream.
#include "core/backends/cuda/plugin/device.h"

#include <algorithm>
#include <cstdio>
#include <new>

namespace tandem::cuda {
namespace {

thread_local char failure[512] = "";

Status not_supported(const char* call) {
  std::snprintf(failure, sizeof failure, "%s: the kernels are not part of this plug-in", call);
  return Status::kNotSupported;
}

Status status_of(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return Status::kOk;
  static_cast<void>(cudaGetLastError());  // or the next launch would be blamed for it
  std::snprintf(failure, sizeof failure, "%s: %s (%s, %d)", call, cudaGetErrorString(error),
                cudaGetErrorName(error), static_cast<int>(error));
  return error == cudaErrorMemoryAllocation ? Status::kOutOfMemory : Status::kFailed;
}

}  // namespace

const char* last_failure() { return failure; }

std::unique_ptr<Device> Device::open(int ordinal) {
  std::unique_ptr<Device> device(new (std::nothrow) Device(ordinal));
  if (device == nullptr) {
    std::snprintf(failure, sizeof failure, "no host memory");
    return nullptr;
  }
  if (device->enter() != Status::kOk) return nullptr;
  // Non-blocking: the legacy default stream, which a library might use, does not wait for this one.
  const cudaError_t error = cudaStreamCreateWithFlags(&device->stream_, cudaStreamNonBlocking);
  if (status_of(error, "cudaStreamCreateWithFlags") != Status::kOk) return nullptr;
  return device;
}

Device::~Device() {
  if (stream_ == nullptr || enter() != Status::kOk) return;
  status_of(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  status_of(cudaStreamDestroy(stream_), "cudaStreamDestroy");
}

Status Device::enter() const { return status_of(cudaSetDevice(ordinal_), "cudaSetDevice"); }

// cudaMalloc aligns to 256 bytes at least (CUDA C++ Programming Guide, device memory accesses). No bytes are
// one byte, so that a pointer is null only where memory is out.
Status Device::allocate(std::size_t bytes, void** pointer) {
  *pointer = nullptr;
  if (const Status status = enter(); status != Status::kOk) return status;
  const Status status = status_of(cudaMalloc(pointer, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  if (status != Status::kOk) *pointer = nullptr;
  return status;
}

// What is queued may still use the memory, and cudaFree does not promise to wait for this stream.
Status Device::free(void* pointer) {
  if (pointer == nullptr) return Status::kOk;
  if (const Status status = synchronize(); status != Status::kOk) return status;
  return status_of(cudaFree(pointer), "cudaFree");
}

Status Device::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return Status::kOk;
  if (const Status status = enter(); status != Status::kOk) return status;
  return status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_),
                   "cudaMemcpyAsync within the device");
}

// Whether an asynchronous copy has read its host memory when it returns depends on the kind of memory and is
// not promised for any: so wait.
Status Device::copy_from_host(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return Status::kOk;
  if (const Status status = enter(); status != Status::kOk) return status;
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_);
  if (const Status status = status_of(error, "cudaMemcpyAsync from the host"); status != Status::kOk)
    return status;
  return synchronize();
}

Status Device::copy_to_host(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return Status::kOk;
  if (const Status status = enter(); status != Status::kOk) return status;
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_);
  if (const Status status = status_of(error, "cudaMemcpyAsync to the host"); status != Status::kOk)
    return status;
  return synchronize();
}

Status Device::zero(void* pointer, std::size_t bytes) {
  if (bytes == 0) return Status::kOk;
  if (const Status status = enter(); status != Status::kOk) return status;
  return status_of(cudaMemsetAsync(pointer, 0, bytes, stream_), "cudaMemsetAsync");
}

Status Device::launch(std::int32_t, const Grid&, const void*, std::size_t) { return not_supported("launch"); }
Status Device::gemm(const GemmCall&) { return not_supported("gemm"); }
Status Device::conv(const ConvCall&) { return not_supported("conv"); }

Status Device::synchronize() {
  if (const Status status = enter(); status != Status::kOk) return status;
  return status_of(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

const char* Device::last_error() const { return last_failure(); }

}  // namespace tandem::cuda

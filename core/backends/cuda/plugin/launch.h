// The plug-in's kernels by number: kernel_list.h's functors as kernels of the device. Compiled by nvcc
// (launch.cu); the rest of the plug-in is C++.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "core/backends/cuda/device_api.h"

namespace tandem::cuda {

// Queues kernel `id`. cudaErrorInvalidValue where there is none, or its functor has another size than
// `bytes`.
cudaError_t launch_kernel(std::int32_t id, const Grid& grid, const void* functor, std::size_t bytes,
                          cudaStream_t stream);

}  // namespace tandem::cuda

// The CPU backend: oneDNN and own kernels for convolution and matmul (F32, F16, BF16), own fused loops for
// the rest. How it works inside is in the files of this folder.
#pragma once

#include <memory>

#include "core/backends/backend.h"

namespace tandem {

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace tandem

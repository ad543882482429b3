// The vendor libraries of the plug-in at run time: whether all their parts are there, and their versions.
#pragma once

#include <cstdint>
#include <string>

namespace tandem::cuda {

// "" or which part of cuDNN cannot be loaded, with the loader's words. To be asked before any function of
// cuDNN is called: libcudnn.so loads its parts itself then, and ends the process where one is missing.
std::string missing_cudnn_part();

// 10000 major + 100 minor + patch: 91900 is 9.19.0.
std::int64_t cudnn_version();
std::int64_t cublaslt_version();

}  // namespace tandem::cuda

// dlopen of cuDNN's parts, and the version functions.
#include "core/backends/cuda/plugin/libraries.h"

#include <cublasLt.h>
#include <cudnn.h>
#include <dlfcn.h>

namespace tandem::cuda {

static_assert(CUDNN_MAJOR == 9 && CUDNN_VERSION >= 90800, "the graph API as of cuDNN 9.8 is needed");

std::string missing_cudnn_part() {
  // What the graph API loads; none is closed again: the handles are what cuDNN's own dlopen will find.
  for (const char* const part :
       {"graph", "ops", "cnn", "heuristic", "engines_precompiled", "engines_runtime_compiled"}) {
    const std::string file = std::string("libcudnn_") + part + ".so." + std::to_string(CUDNN_MAJOR);
    if (::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) {
      const char* const text = ::dlerror();
      return "a part of cuDNN is missing: " + std::string(text != nullptr ? text : file.c_str());
    }
  }
  return "";
}

std::int64_t cudnn_version() { return static_cast<std::int64_t>(cudnnGetVersion()); }
std::int64_t cublaslt_version() { return static_cast<std::int64_t>(cublasLtGetVersion()); }

}  // namespace tandem::cuda

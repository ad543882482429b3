// The C functions of the plug-in: which devices there are, what each is, and how one is opened.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/backends/cuda/plugin/device.h"
#include "core/backends/cuda/plugin/libraries.h"
#include "core/backends/cuda/plugin_abi.h"
#include "core/backends/cuda/plugin_hash.h"

namespace {

using namespace tandem::cuda;

constexpr int kOldestCapability = 75;  // 10 major + minor: Turing, the oldest that CUDA 13 compiles for

void write(const std::string& from, char* text, std::int32_t size) {
  if (text != nullptr && size > 0) std::snprintf(text, static_cast<std::size_t>(size), "%s", from.c_str());
}

std::string text_of(cudaError_t error) {
  static_cast<void>(cudaGetLastError());
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ", " +
         std::to_string(static_cast<int>(error)) + ")";
}

std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

// Why the driver gives no devices.
std::string driver_reason(cudaError_t error) {
  if (error == cudaErrorNoDevice)
    return "the NVIDIA driver shows no device: none is visible (CUDA_VISIBLE_DEVICES, a container without "
           "/dev/nvidia0) or none works";
  if (error != cudaErrorInsufficientDriver) return "the NVIDIA driver failed: " + text_of(error);
  int known = 0;  // stays 0 without a driver
  if (cudaDriverGetVersion(&known) != cudaSuccess || known == 0)
    return "there is no NVIDIA driver (libcuda.so.1 cannot be used)";
  return "the NVIDIA driver is too old: it knows CUDA " + cuda_version(known) + ", the plug-in needs CUDA " +
         cuda_version(CUDART_VERSION);
}

// CUDA's numbers of the devices that this plug-in has code for; without any, `why` says so.
std::vector<int> usable_ordinals(std::string& why) {
  int count = 0;  // an error leaves it untouched
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count <= 0) {
    why = driver_reason(error == cudaSuccess ? cudaErrorNoDevice : error);
    return {};
  }
  std::vector<int> ordinals;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties{};
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal); error != cudaSuccess)
      why = "device " + std::to_string(ordinal) + ": " + text_of(error);
    else if (10 * properties.major + properties.minor < kOldestCapability)
      why = std::string(properties.name) + " has compute capability " + std::to_string(properties.major) +
            "." + std::to_string(properties.minor) + ", at least 7.5 is needed";
    else
      ordinals.push_back(ordinal);
  }
  return ordinals;
}

// Looked for once: numbers must not move under the caller.
struct Found {
  std::string why;
  std::vector<int> ordinals = usable_ordinals(why);
};
const Found& found() {
  static const Found once;
  return once;
}

// The ordinal of the index-th usable device; -1 and the reason.
int ordinal_of(std::int32_t index, std::string& why) {
  const std::vector<int>& ordinals = found().ordinals;
  if (index >= 0 && index < static_cast<std::int32_t>(ordinals.size()))
    return ordinals[static_cast<std::size_t>(index)];
  why = ordinals.empty() ? found().why
                         : "device " + std::to_string(index) + " of " + std::to_string(ordinals.size());
  return -1;
}

std::string quoted(const char* text) {
  std::string result = "\"";
  for (; *text != '\0'; ++text) {
    if (static_cast<unsigned char>(*text) < ' ') continue;
    if (*text == '"' || *text == '\\') result += '\\';
    result += *text;
  }
  return result + '"';
}

// The description of a device, or "" and the reason.
std::string describe(std::int32_t index, std::string& why) {
  const int ordinal = ordinal_of(index, why);
  if (ordinal < 0) return "";
  cudaDeviceProp properties{};
  int driver = 0, runtime = 0;
  for (const cudaError_t error : {cudaGetDeviceProperties(&properties, ordinal),
                                  cudaDriverGetVersion(&driver), cudaRuntimeGetVersion(&runtime)})
    if (error != cudaSuccess) {
      why = text_of(error);
      return "";
    }
  const std::string capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
  const auto number = [](const char* key, auto value) {
    return std::string(", \"") + key + "\": " + std::to_string(value);
  };
  return "{\"name\": " + quoted(properties.name) + ", \"compute_capability\": \"" + capability + "\"" +
         number("memory_bytes", properties.totalGlobalMem) +
         number("multiprocessors", properties.multiProcessorCount) + number("driver", driver) +
         number("runtime", runtime) + number("cudnn", cudnn_version()) +
         number("cublaslt", cublaslt_version()) + "}";
}

constexpr const char* kNoHostMemory = "no host memory";

}  // namespace

std::uint64_t tandem_cuda_abi() { return plugin_abi(); }

std::int32_t tandem_cuda_probe(char* why, std::int32_t size) try {
  write("", why, size);
  if (found().ordinals.empty()) {
    write(found().why, why, size);
    return 0;
  }
  // Before anything of cuDNN is called.
  if (const std::string missing = missing_cudnn_part(); !missing.empty()) {
    write(missing, why, size);
    return 0;
  }
  return static_cast<std::int32_t>(found().ordinals.size());
} catch (...) {
  write(kNoHostMemory, why, size);
  return 0;
}

bool tandem_cuda_describe(std::int32_t index, char* text, std::int32_t size) try {
  std::string why;
  const std::string object = describe(index, why);
  write(object.empty() ? why : object, text, size);
  return !object.empty();
} catch (...) {
  write(kNoHostMemory, text, size);
  return false;
}

DeviceApi* tandem_cuda_create(std::int32_t index, char* why, std::int32_t size) try {
  write("", why, size);
  std::string reason;
  const int ordinal = ordinal_of(index, reason);
  std::unique_ptr<Device> device = ordinal < 0 ? nullptr : Device::open(ordinal);
  if (device == nullptr) write(ordinal < 0 ? reason : last_failure(), why, size);
  return device.release();
} catch (...) {
  write(kNoHostMemory, why, size);
  return nullptr;
}

void tandem_cuda_destroy(DeviceApi* api) { delete api; }

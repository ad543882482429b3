// What the plug-in says, and one megabyte to each device, within it, and back.
#include "apps/doctor_device.h"

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/backends/cuda/cuda_plugin.h"
#include "core/base/error.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
using Bytes = std::vector<std::uint8_t>;

// Throws Error{kDevice} with the failed call.
void move_bytes(cuda::DeviceApi& api) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  Bytes pattern(kBytes), copied(kBytes), zeroed(kBytes, 1);
  for (std::size_t i = 0; i < kBytes; ++i) pattern[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
  void *first = nullptr, *second = nullptr;
  const auto check = [&api](const char* call, cuda::Status status) {
    if (status != cuda::Status::kOk) fail(ErrorKind::kDevice, "{} failed: {}", call, api.last_error());
  };
  check("allocate", api.allocate(kBytes, &first));
  check("allocate", api.allocate(kBytes, &second));
  check("copy to the device", api.copy_from_host(first, pattern.data(), kBytes));
  check("copy within the device", api.copy(second, first, kBytes));
  check("zero", api.zero(first, kBytes));
  check("copy from the device", api.copy_to_host(copied.data(), second, kBytes));
  check("copy from the device", api.copy_to_host(zeroed.data(), first, kBytes));
  check("synchronize", api.synchronize());
  check("free", api.free(first));
  check("free", api.free(second));
  if (copied != pattern) fail(ErrorKind::kDevice, "1 MiB came back changed");
  if (zeroed != Bytes(kBytes)) fail(ErrorKind::kDevice, "zeroed memory is not zero");
}

std::string memory_check(std::int64_t index) {
  try {
    move_bytes(*cuda::open_device(index));
    return "passed";
  } catch (const Error& error) {
    return error.text();
  }
}

}  // namespace

Json examine_cuda() {
  const cuda::Plugin& plugin = cuda::plugin();
  Json devices = Json::array();
  for (const cuda::DeviceDescription& d : plugin.devices)
    devices.push_back({{"name", d.name},
                       {"compute_capability", d.compute_capability},
                       {"memory_bytes", d.memory_bytes},
                       {"multiprocessors", d.multiprocessors},
                       {"driver_cuda", d.driver},
                       {"runtime_cuda", d.runtime},
                       {"cudnn", d.cudnn},
                       {"cublaslt", d.cublaslt},
                       {"memory_check", memory_check(std::ssize(devices))}});
  return {{"usable", plugin.usable()},
          {"reason", plugin.reason},
          {"plugin", plugin.file.empty() ? Json() : Json(plugin.file)},
          {"devices", devices}};
}

void print_cuda(const Json& cuda) {
  if (!cuda["usable"].get<bool>()) fmt::print("cuda     {}\n", cuda["reason"].get<std::string>());
  if (!cuda["plugin"].is_null()) fmt::print("plug-in  {}\n", cuda["plugin"].get<std::string>());
  int index = 0;
  for (const Json& d : cuda["devices"])
    fmt::print(
        "cuda:{}   {}, compute capability {}, {} multiprocessors, {:.1f} GiB; CUDA {} (driver {}), cuDNN {}, "
        "cuBLASLt {}; memory check: {}\n",
        index++, d["name"].get<std::string>(), d["compute_capability"].get<std::string>(),
        d["multiprocessors"].get<std::int64_t>(), d["memory_bytes"].get<double>() / (1 << 30),
        d["runtime_cuda"].get<std::string>(), d["driver_cuda"].get<std::string>(),
        d["cudnn"].get<std::string>(), d["cublaslt"].get<std::string>(),
        d["memory_check"].get<std::string>());
}

}  // namespace tandem

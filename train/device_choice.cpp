// Words to devices.
#include "train/device_choice.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <system_error>

#include "core/backends/cuda/cuda_plugin.h"
#include "core/base/error.h"

namespace tandem {
namespace {

// "cuda" -> 0, "cuda:3" -> 3; none for other words.
std::optional<int> cuda_index(std::string_view text) {
  if (text == "cuda") return 0;
  constexpr std::string_view kPrefix = "cuda:";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  unsigned short index = 0;  // unsigned: no sign is read
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + kPrefix.size(), end, index);
  return error == std::errc() && stop == end ? std::optional<int>(index) : std::nullopt;
}

}  // namespace

bool is_device_name(const std::string& text) { return text == "auto" || text == "cpu" || cuda_index(text); }

std::optional<std::string> missing_device(const std::string& text) {
  const std::optional<int> index = cuda_index(text);
  if (!index) return std::nullopt;
  const cuda::Plugin& plugin = cuda::plugin();
  if (!plugin.usable()) return fmt::format("got {}, expected auto or cpu: {}", text, plugin.reason);
  if (*index < std::ssize(plugin.devices)) return std::nullopt;
  return fmt::format("got {}, expected auto, cpu or a number below {}, the CUDA devices here", text,
                     plugin.devices.size());
}

Device device_of(const std::string& text) {
  check_internal(is_device_name(text), "a device that fields() does not allow: " + text);
  if (const auto missing = missing_device(text))
    throw Error(ErrorKind::kDevice, "[device] " + *missing,
                "Use device: cpu or auto; docs/gpu.md says what to do about the reason.");
  if (const auto index = cuda_index(text)) return {DeviceKind::kCuda, *index};
  return text == "auto" && cuda::plugin().usable() ? Device{DeviceKind::kCuda, 0} : kCpuDevice;
}

}  // namespace tandem

// Where a tensor lives and which backend computes on it. `reference` is host memory computed by the
// double-precision oracle of the tests (core/backends/reference).
#pragma once

#include <string>

namespace tandem {

enum class DeviceKind { kCpu, kCuda, kReference };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device kCpuDevice{DeviceKind::kCpu, 0};
inline constexpr Device kReferenceDevice{DeviceKind::kReference, 0};

std::string name(const Device& device);  // "cpu", "cuda:0", "reference"

}  // namespace tandem

// The number that a program and its plug-in must share: a hash of all that crosses the interface between
// them. Not here: the functions (plugin_abi.h), the calls (device_api.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/backends/cuda/device_api.h"
#include "core/backends/cuda/kernel_list.h"
#include "core/kernels/step_state.h"
#include "core/kernels/table.h"

namespace tandem::cuda {

// To be raised where the order or the meaning of DeviceApi's functions changes: neither shows in a size.
inline constexpr std::uint64_t kInterfaceVersion = 1;

// FNV-1a over the hashes of the functors' table and of the kernels' list, and the sizes and alignments of the
// structs that are passed.
constexpr std::uint64_t plugin_abi() {
  constexpr std::size_t kNumbers[] = {
      sizeof(Status),        sizeof(ConvPass),  sizeof(DType),      sizeof(Grid),       alignof(Grid),
      sizeof(GemmCall),      alignof(GemmCall), sizeof(ConvCall),   alignof(ConvCall),  sizeof(DeviceMatrix),
      alignof(DeviceMatrix), sizeof(StepState), alignof(StepState), sizeof(ScalerKnobs)};
  std::uint64_t hash = kernel_table_hash();
  const auto mix = [&hash](std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (number >> (8 * byte) & 0xffu)) * 0x100000001b3u;
  };
  mix(kernel_list_hash());
  mix(kInterfaceVersion);
  for (const std::size_t number : kNumbers) mix(number);
  return hash;
}

}  // namespace tandem::cuda

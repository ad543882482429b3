// The C functions of libtandem_cuda.so, found by name after dlopen; cuda_plugin.h uses them.
#pragma once

#include <cstdint>

#include "core/backends/cuda/device_api.h"

extern "C" {

// Equal to the program's own cuda::plugin_abi(), else the plug-in is of another build and is not used.
std::uint64_t tandem_cuda_abi();

// Number of usable devices, 0 with one line of the reason in `why` (always ended by 0). Never throws, never
// ends the process.
std::int32_t tandem_cuda_probe(char* why, std::int32_t size);

// What device `index` is, as one JSON object: name, compute capability, memory, multiprocessors, driver,
// runtime, cuDNN and cuBLASLt versions. Returns false and the reason in `text` where it cannot be asked.
bool tandem_cuda_describe(std::int32_t index, char* text, std::int32_t size);

// The device's interface, owned by the caller (delete through tandem_cuda_destroy); null and the reason.
tandem::cuda::DeviceApi* tandem_cuda_create(std::int32_t index, char* why, std::int32_t size);
void tandem_cuda_destroy(tandem::cuda::DeviceApi* api);
}

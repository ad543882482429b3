// What the word `device` of a job means on this machine. Devices and why there are none: core/backends/cuda.
#pragma once

#include <optional>
#include <string>

#include "core/tensor/device.h"

namespace tandem {

// auto, cpu, cuda or cuda:N, whether it is there or not.
bool is_device_name(const std::string& text);
// Why the device of that name is not there, "got ..., expected ..."; nothing if it is. cpu opens no plug-in.
std::optional<std::string> missing_device(const std::string& text);
// The device of that name; auto: the first CUDA device where one is usable, else the CPU. Throws
// Error{kConfig} for another text, Error{kDevice} when it is not there.
Device device_of(const std::string& text);

}  // namespace tandem

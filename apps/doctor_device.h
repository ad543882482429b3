// The part of `tandem doctor` about CUDA devices: what was found, why it is not used, and whether memory
// works.
#pragma once

#include <nlohmann/json.hpp>

namespace tandem {

// {usable, reason, plugin, devices: [{name, ..., memory_check}]}. Opens each device and moves 1 MiB through
// it.
nlohmann::ordered_json examine_cuda();
// The same as lines of text on standard output.
void print_cuda(const nlohmann::ordered_json& cuda);

}  // namespace tandem

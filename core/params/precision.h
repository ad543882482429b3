// Which dtype each layer computes in: the compute dtype of a job and its exceptions by name pattern.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"

namespace tandem {

// A value. The loss scaler's options are optim/loss_scaler's.
struct Precision {
  DType compute = DType::kF32;           // kF32, kBF16 or kF16
  std::vector<std::string> fp32_layers;  // glob patterns of parameter or module names; beats everything
  std::vector<std::string> low_layers;   // forced to `compute` where that is allowed

  // The dtype of the compute copy of the conv or linear weight `name` ("enc0.conv1.weight"). A pattern
  // matches the whole name or the name of a module that holds it.
  DType dtype_of(std::string_view name) const;
};

// `*` any run of characters, `?` one; the rest literally.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace tandem

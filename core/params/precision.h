// Which dtype each layer computes in: the compute dtype of a job and its exceptions by name pattern. The
// options of the loss scaler are optim/loss_scaler's.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"

namespace tandem {

struct Precision {
  DType compute = DType::kF32;           // kF32, kBF16 or kF16
  std::vector<std::string> fp32_layers;  // patterns of parameter or module names; beats everything
  // Patterns of layers forced to `compute`. Only conv and linear weights can be: scale, shift and bias are
  // always FP32 (amp.md 3.2).
  std::vector<std::string> low_layers;

  // The dtype of the compute copy of the conv or linear weight `name` ("enc0.conv1.weight").
  DType dtype_of(std::string_view name) const;
};

// Whether `pattern` matches the dotted name of a parameter or of a module that holds it: "enc0", "enc*.conv1"
// and
// "*.weight" all cover "enc0.conv1.weight".
bool pattern_covers(std::string_view pattern, std::string_view parameter);
// Throws Error{kConfig} unless every pattern covers one of `names` (of parameters), naming the nearest module
// or parameter. key: "precision.fp32_layers"; expected: what a match would be.
void require_pattern_matches(std::span<const std::string> patterns, std::string_view key,
                             const std::vector<std::string>& names, std::string_view expected);
// `*` any run of characters (dots too), `?` one; the rest literally. O(pattern * text).
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace tandem

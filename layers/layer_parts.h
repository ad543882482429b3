// What the layers share: the input in the weight's dtype, and a bias initialised as PyTorch does. Private to
// layers/.
#pragma once

#include <optional>

#include "core/ops/elementwise.h"
#include "layers/module.h"

namespace tandem::layer_parts {

// `x` in the dtype of `weight`: FP32 layers inside a 16-bit model, and the reverse.
inline Var in_dtype_of(const Var& x, const Var& weight) {
  return x.dtype() == weight.dtype() ? x : cast(x, weight.dtype());
}

// The bias of a layer with `weight_shape` [K, C, taps], by `init` or else uniform in +-1/sqrt(C taps).
Initializer bias_initializer(const std::optional<Initializer>& init, const Shape& weight_shape);

// [first, second, the last `dims` sizes of kernel].
Shape weight_shape(std::int64_t first, std::int64_t second, int dims,
                   const std::array<std::int64_t, 3>& kernel);

}  // namespace tandem::layer_parts

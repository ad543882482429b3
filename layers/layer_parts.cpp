// Initialisers and shapes of the layers' parameters.
#include "layers/layer_parts.h"

#include <cmath>

namespace tandem::layer_parts {

Initializer bias_initializer(const std::optional<Initializer>& init, const Shape& weight_shape) {
  if (init) return *init;
  const auto fan_in = static_cast<double>(weight_shape.numel() / weight_shape[0]);
  return {Initializer::Kind::kUniform, 1 / std::sqrt(fan_in)};
}

Shape weight_shape(std::int64_t first, std::int64_t second, int dims,
                   const std::array<std::int64_t, 3>& kernel) {
  std::vector<std::int64_t> sizes{first, second};
  for (int axis = 3 - dims; axis < 3; ++axis) sizes.push_back(kernel[static_cast<std::size_t>(axis)]);
  return Shape(sizes);
}

}  // namespace tandem::layer_parts

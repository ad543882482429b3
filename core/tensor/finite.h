// Scans of a tensor for values that are not finite and for its largest magnitude: for diagnosis and for the
// headroom of the loss scale. The finite check of every step is Backend::gradient_check.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tensor/tensor.h"

namespace tandem {

// The first NaN or infinity in stored order.
struct NonfiniteElement {
  std::vector<std::int64_t> index;  // logical: n, c, d, h, w of a volume
  double value = 0;                 // inf, -inf or NaN
};

// Nothing when all of `tensor` (any dtype; integers are finite) is finite. Reads a tensor of another device
// through a copy on the host.
std::optional<NonfiniteElement> first_nonfinite(const Tensor& tensor);

// max |x| over the finite and infinite elements of a float tensor, NaN left out; 0 of an empty one.
double largest_magnitude(const Tensor& tensor);

// Overwrites NaN with 0 and infinities with +-`bound` in a packed F32 or F64 tensor of the host.
void make_finite(const Tensor& tensor, double bound);

// The element at a logical index, as double.
double value_at(const Tensor& tensor, const std::vector<std::int64_t>& index);

}  // namespace tandem

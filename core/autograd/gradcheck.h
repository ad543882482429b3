// Checks the gradient of a function of Vars against central differences in double, on the reference backend.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/autograd/tape.h"

namespace tandem {

// Any function of its inputs; the output may have any shape (it is reduced with fixed random weights).
using DifferentiableFunction = std::function<Var(std::span<const Var> inputs)>;

// A scalar that depends on every element: [1] of the accumulation dtype, sum of weights[i] y[i] in logical
// order; its gradient towards y is seed * weights, rounded to y's dtype. Host tensors only: for tests.
Var weighted_sum(const Var& y, std::span<const double> weights);

struct GradcheckOptions {
  // Of the central difference, absolute.
  double step = 1e-6;
  // Largest accepted difference: absolute + relative * |numeric|.
  double relative = 1e-5, absolute = 1e-7;
  std::uint64_t seed = 1;
  // Inputs with more elements than this are checked along 64 random directions instead of element by element.
  std::int64_t max_elements = 2000;
};

struct GradcheckResult {
  bool ok = true;
  std::string text;  // the worst mismatch: input, index, analytic, numeric
};

// `inputs` F64 on the reference device, all differentiable; other operands are captured by `function`, which
// may be called many times and must be pure. Compares every element of every input's gradient.
GradcheckResult gradcheck(const DifferentiableFunction& function, std::span<const Tensor> inputs,
                          const GradcheckOptions& options = {});

}  // namespace tandem

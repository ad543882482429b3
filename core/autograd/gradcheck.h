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

struct GradcheckOptions {
  double step = 1e-6;
  double relative = 1e-5, absolute = 1e-7;
  std::uint64_t seed = 1;
  // Inputs with more elements than this are checked along 64 random directions instead of element by element.
  std::int64_t max_elements = 2000;
};

struct GradcheckResult {
  bool ok = true;
  std::string text;  // the worst mismatch: input, index, analytic, numeric
};

// `inputs` F64 on the reference device. Compares every element of every input's gradient.
GradcheckResult gradcheck(const DifferentiableFunction& function, std::span<const Tensor> inputs,
                          const GradcheckOptions& options = {});

}  // namespace tandem

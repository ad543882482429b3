// The optimizers of tests/refs/make_refs.py, optimizer_reference: the same names and constants.
// What they are compared with is in optim.ref.
#pragma once

#include <string>

#include "optim/optimizer.h"

namespace tandem::tests {

inline OptimizerOptions reference_options(const std::string& name) {
  if (name == "sgd") return {.name = OptimizerKind::kSgd, .lr = 0.05};
  if (name == "sgd_momentum_decay")
    return {.name = OptimizerKind::kSgd, .lr = 0.05, .weight_decay = 0.01, .momentum = 0.9};
  if (name == "sgd_nesterov_decay")
    return {
        .name = OptimizerKind::kSgd, .lr = 0.05, .weight_decay = 3e-5, .momentum = 0.99, .nesterov = true};
  if (name == "adam") return {.name = OptimizerKind::kAdam, .lr = 0.01};
  if (name == "adam_decay") return {.name = OptimizerKind::kAdam, .lr = 0.01, .weight_decay = 0.1};
  if (name == "rmsprop") return {.name = OptimizerKind::kRmsProp, .lr = 0.01};
  if (name == "rmsprop_momentum_decay")
    return {.name = OptimizerKind::kRmsProp, .lr = 0.01, .weight_decay = 0.01, .momentum = 0.8, .rho = 0.9};
  if (name == "rmsprop_centered")
    return {.name = OptimizerKind::kRmsProp,
            .lr = 0.01,
            .momentum = 0.8,
            .eps = 1e-3,
            .rho = 0.9,
            .centered = true};
  return {.name = OptimizerKind::kAdamW,
          .lr = 0.01,
          .weight_decay = 0.1,
          .beta1 = 0.8,
          .beta2 = 0.99,
          .eps = 1e-6};
}

}  // namespace tandem::tests

// The parts of a region as an optimizer's pass takes them: constants of this step, one row per part. Shared
// by the cpu and cuda backends, whose row types differ in name alone.
#pragma once

#include <vector>

#include "core/backends/kernel_args.h"

namespace tandem {

// One Part {end, SGD's, Adam's and RMSprop's constants of this step} per part of args; without parts one that
// covers the region.
template <class Part>
std::vector<Part> optimizer_parts(const OptimizerArgs& args, const StepState& state) {
  std::vector<OptimizerPart> parts = args.parts;
  if (parts.empty()) parts.push_back({args.master.numel(), args.constants.weight_decay, 1});
  std::vector<Part> result;
  for (const OptimizerPart& part : parts) {
    const OptimizerConstants c = kernels::part_constants(args.constants, part);
    const double lr = static_cast<double>(state.lr) * part.lr_factor;
    result.push_back({part.end, kernels::sgd_step<float>(c, lr),
                      kernels::adam_step<float>(c, lr, state.applied + 1, args.kind == OptimizerKind::kAdamW),
                      kernels::rmsprop_step<float>(c, lr)});
  }
  return result;
}

}  // namespace tandem

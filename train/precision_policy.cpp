// Policies as functions of option values.
#include "train/precision_policy.h"

#include <algorithm>

namespace tandem {

PrecisionOptions with_fp32_layer(PrecisionOptions precision, const std::string& layer) {
  precision.fp32_layers.push_back(layer);
  return precision;
}

PrecisionOptions fallen_back(PrecisionOptions precision) {
  const bool to_bf16 = precision.loss_scale.at_floor == FloorPolicy::kFallbackBf16;
  precision.compute = to_bf16 ? ComputeChoice::kBf16 : ComputeChoice::kFp32;
  return precision;
}

std::optional<PrecisionOptions> adopted_precision(const PrecisionOptions& job,
                                                  const PrecisionOptions& saved) {
  PrecisionOptions result = job;
  const FloorPolicy policy = job.loss_scale.at_floor;
  if ((policy == FloorPolicy::kFallbackFp32 && saved.compute == ComputeChoice::kFp32) ||
      (policy == FloorPolicy::kFallbackBf16 && saved.compute == ComputeChoice::kBf16))
    result.compute = saved.compute;
  const bool demotes = job.on_repeat_overflow == "demote" || job.on_weight_overflow == "fp32_layer";
  for (const std::string& layer : saved.fp32_layers)
    if (demotes && std::ranges::find(result.fp32_layers, layer) == result.fp32_layers.end())
      result.fp32_layers.push_back(layer);
  if (result.compute == job.compute && result.fp32_layers.size() == job.fp32_layers.size())
    return std::nullopt;
  return result;
}

}  // namespace tandem

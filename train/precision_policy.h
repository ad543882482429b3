// What changes the precision of a running job: the policies of `precision` in the job file, and how a resumed
// run takes over what they changed. When they act is decided in run.cpp.
#pragma once

#include <optional>
#include <string>

#include "train/job.h"

namespace tandem {

// Thrown to build the run anew with another precision; it goes on from its newest checkpoint.
struct PrecisionChange {
  PrecisionOptions precision;
  bool is_saved = false;  // this run's state, in its own folder
};

// `precision` with `layer` in FP32 too.
PrecisionOptions with_fp32_layer(PrecisionOptions precision, const std::string& layer);
// `precision` as loss_scale.at_floor (fallback_*) wants it.
PrecisionOptions fallen_back(PrecisionOptions precision);

// A run whose policies changed its precision goes on with that, though the job file has the old one: what
// `job` becomes after resuming a checkpoint whose run had `saved`; nothing if they agree or no policy of
// `job` allows the difference.
std::optional<PrecisionOptions> adopted_precision(const PrecisionOptions& job, const PrecisionOptions& saved);

}  // namespace tandem

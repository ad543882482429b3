// A stop that comes while the cases of a run are read, before its first step. What a stop means later is
// train/job_run's.
#pragma once

#include <functional>

#include "core/base/error.h"

namespace tandem {

// Asked between two cases; may be empty.
using StopRequested = std::function<bool()>;

// Throws Error{kStopped} when the answer is yes.
inline void leave_if_stopped(const StopRequested& stop_requested) {
  if (stop_requested && stop_requested())
    throw Error(ErrorKind::kStopped,
                "[data] stopped by a signal while the cases were read; no step was taken",
                "Go on with --resume auto.");
}

}  // namespace tandem

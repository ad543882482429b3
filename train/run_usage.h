// Where the time of a run goes, and its peak memory: what the usage lines of metrics.jsonl hold.
#pragma once

#include <array>
#include <cstdint>

#include "core/tensor/device.h"
#include "train/metrics_log.h"
#include "train/trainer.h"

namespace tandem {

class RunUsage {
 public:
  // The phases, in the order of reports: data wait, forward, backward, update, the rest of the step,
  // validation, save.
  enum Phase { kDataWait, kForward, kBackward, kUpdate, kOther, kValidate, kSave, kPhases };

  void add(const StepReport& report);
  void add(Phase phase, double seconds) { seconds_[phase] += seconds; }
  // Seconds since the last call, and the peak bytes of this process on `device`.
  UsageMetrics take(std::int64_t step, const Device& device);

 private:
  std::array<double, kPhases> seconds_{};
};

}  // namespace tandem

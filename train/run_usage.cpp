// Sums of seconds by phase.
#include "train/run_usage.h"

#include <algorithm>
#include <string_view>

#include "core/tensor/allocator.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, RunUsage::kPhases> kNames{
    "data_wait", "forward", "backward", "update", "other", "validate", "save"};

}  // namespace

void RunUsage::add(const StepReport& r) {
  const double parts = r.data_wait_ms + r.forward_ms + r.backward_ms + r.update_ms;
  add(kDataWait, r.data_wait_ms / 1000);
  add(kForward, r.forward_ms / 1000);
  add(kBackward, r.backward_ms / 1000);
  add(kUpdate, r.update_ms / 1000);
  add(kOther, std::max(0.0, r.step_ms - parts) / 1000);
}

UsageMetrics RunUsage::take(std::int64_t step, const Device& device) {
  UsageMetrics usage{.step = step};
  for (std::size_t i = 0; i < seconds_.size(); ++i) usage.seconds.emplace_back(kNames[i], seconds_[i]);
  seconds_.fill(0);
  const MemoryStatistics memory = allocator_of(device)->statistics();
  for (std::size_t i = 0; i < kMemoryCategories; ++i)
    if (memory.peak[i] > 0)
      usage.peak_bytes.emplace_back(name(static_cast<MemoryCategory>(i)),
                                    static_cast<double>(memory.peak[i]));
  usage.total_peak_bytes = memory.total_peak;
  return usage;
}

}  // namespace tandem

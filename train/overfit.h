// `tandem train --overfit N`: can the model learn N patches by heart? The first thing to try when training
// does not work.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/sliding_window.h"
#include "train/job.h"
#include "train/metrics_log.h"

namespace tandem {

// The job for it: no augmentation, no validation, every patch on foreground; named <name>-overfit.
JobOptions overfit_job(JobOptions job);

// `count` samples of `source`, drawn once with `seed` and the same ever after; an epoch visits each once.
class RepeatedSamples final : public Dataset {
 public:
  RepeatedSamples(const Dataset& source, std::int64_t count, std::uint64_t seed);
  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  Sample get(std::int64_t index, const Draw&) const override {
    return samples_[static_cast<std::size_t>(index)];
  }

 private:
  std::vector<Sample> samples_;
};

// Dice of `model` on the samples: the mean over samples and over the foreground classes that a sample holds
// (all classes where it holds none).
double overfit_dice(const PatchModel& model, const Dataset& samples);

// "overfit: Dice 0.981 on 2 patches, loss 1.52 -> 0.08: the model learns them", or what to look at when Dice
// is below 0.9.
std::string overfit_verdict(const MetricsHistory& history, std::int64_t count, double dice);

}  // namespace tandem

// Fixed samples, and what a loss on them means.
#include "train/overfit.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.h"

namespace tandem {
namespace {

// Independent targets of 0 and 1 per channel (data.regions): the mean over the regions that the sample holds,
// or over all of them.
double region_dice(const std::vector<double>& logits, const Tensor& label) {
  const std::vector<double> truth = label.to_values();
  const auto regions = static_cast<std::size_t>(label.shape()[1]), voxels = truth.size() / regions;
  double sum = 0, count = 0, absent = 0;
  for (std::size_t r = 0; r < regions; ++r) {
    double both = 0, predicted = 0, present = 0;
    for (std::size_t i = r * voxels; i < (r + 1) * voxels; ++i) {
      if (truth[i] < 0) continue;
      predicted += logits[i] > 0;
      present += truth[i];
      both += logits[i] > 0 ? truth[i] : 0;
    }
    absent += predicted == 0;
    if (present == 0) continue;
    sum += 2 * both / (predicted + present);
    ++count;
  }
  return count > 0 ? sum / count : absent / static_cast<double>(regions);
}

// Logits in the order of to_values(): [1, C, D, H, W].
double sample_dice(const std::vector<double>& logits, const Tensor& label) {
  const std::vector<double> truth = label.to_values();
  const std::size_t voxels = truth.size(), classes = logits.size() / voxels;
  std::vector<double> both(classes), either(classes), present(classes);
  for (std::size_t voxel = 0; voxel < voxels; ++voxel) {
    if (truth[voxel] < 0) continue;  // ignored
    std::size_t predicted = 0;
    for (std::size_t c = 1; c < classes; ++c)
      if (logits[c * voxels + voxel] > logits[predicted * voxels + voxel]) predicted = c;
    const auto wanted = static_cast<std::size_t>(truth[voxel]);
    ++either[predicted];
    if (wanted >= classes) continue;
    ++either[wanted];
    ++present[wanted];
    both[wanted] += predicted == wanted;
  }
  const bool has_foreground = std::any_of(present.begin() + 1, present.end(), [](double n) { return n > 0; });
  double sum = 0, count = 0;
  for (std::size_t c = has_foreground ? 1 : 0; c < classes; ++c) {
    if (present[c] == 0) continue;
    sum += 2 * both[c] / either[c];
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace

JobOptions overfit_job(JobOptions job) {
  job.name += "-overfit";
  job.augment = {};
  job.patch.foreground = 1;
  job.data.validation.clear();
  job.select = {};
  return job;
}

RepeatedSamples::RepeatedSamples(const Dataset& source, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto sample = static_cast<std::uint64_t>(i);
    samples_.push_back(source.get(i % source.size(), {.seed = seed, .sample = sample}));
  }
}

double overfit_dice(const PatchModel& model, const Dataset& samples) {
  double sum = 0;
  for (std::int64_t i = 0; i < samples.size(); ++i) {
    const Sample sample = samples.get(i, {});
    const Tensor logits = model(sample.image);
    const bool has_regions = sample.label.shape() == logits.shape();
    sum += (has_regions ? region_dice : sample_dice)(logits.to_values(), sample.label);
  }
  return sum / static_cast<double>(samples.size());
}

std::string overfit_verdict(const MetricsHistory& history, std::int64_t count, double dice) {
  constexpr double kLearnt = 0.9;
  const auto loss_of = [](const MetricsHistory::Step& step) { return fmt::format("{:.3g}", step.loss); };
  return fmt::format(
      "overfit: Dice {:.3f} on {}, loss {} -> {}: {}", dice, counted(count, "patch", "patches"),
      history.steps.empty() ? "?" : loss_of(history.steps.front()),
      history.steps.empty() ? "?" : loss_of(history.steps.back()),
      dice >= kLearnt ? "the model learns them"
                      : "not learnt by heart; look at the labels, try more steps or another optimizer.lr");
}

}  // namespace tandem

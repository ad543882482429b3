// Applying and learning of clean-up steps.
#include "data/postprocess.h"

#include <algorithm>

#include "data/connected_components.h"

namespace tandem {
namespace {

// The largest component of all classes together.
std::int64_t keep_largest_foreground(std::span<std::int32_t> labels, const Index3& shape) {
  std::vector<std::int32_t> mask(labels.size());
  std::transform(labels.begin(), labels.end(), mask.begin(), [](std::int32_t v) { return v != 0 ? 1 : 0; });
  const std::int64_t removed = keep_largest_components(mask, shape, {1});
  if (removed > 0)
    for (std::size_t i = 0; i < mask.size(); ++i)
      if (mask[i] == 0) labels[i] = 0;
  return removed;
}

}  // namespace

Postprocess keep_largest_of_all(std::int64_t classes) {
  Postprocess result;
  for (std::int32_t c = 1; c < classes; ++c) result.classes.push_back(c);
  return result;
}

std::int64_t apply(const Postprocess& postprocess, std::span<std::int32_t> labels, const Index3& shape) {
  std::int64_t removed = 0;
  if (postprocess.foreground) removed += keep_largest_foreground(labels, shape);
  if (!postprocess.classes.empty()) removed += keep_largest_components(labels, shape, postprocess.classes);
  return removed;
}

PostprocessLearner::PostprocessLearner(std::vector<ScoredRegion> regions, EmptyPolicy empty)
    : regions_(std::move(regions)), empty_(empty) {}

void PostprocessLearner::add_case(const LabelPair& labels) {
  for (const bool foreground : {false, true}) {
    std::vector<std::int32_t> prediction(labels.prediction.begin(), labels.prediction.end());
    LabelPair pair = labels;
    pair.prediction = prediction;
    apply({.foreground = foreground, .classes = {}}, prediction, labels.shape);
    const ConfusionCounts kept(pair);
    apply(keep_largest_of_all(labels.classes), prediction, labels.shape);
    cases_[foreground ? 1 : 0].push_back({kept, ConfusionCounts(pair)});
  }
}

bool PostprocessLearner::Dice::improves(const Dice& before) const {
  for (std::size_t r = 0; r < regions.size(); ++r)
    if (regions[r] < before.regions[r]) return false;
  return mean > before.mean;
}

PostprocessLearner::Dice PostprocessLearner::dice_with(const Postprocess& steps) const {
  std::vector<double> sums(regions_.size(), 0);
  std::vector<std::int64_t> scored(regions_.size(), 0);
  for (const CaseCounts& counts : cases_[steps.foreground ? 1 : 0]) {
    ConfusionCounts chosen = counts.kept;
    for (const std::int32_t cls : steps.classes) chosen.remove_as(counts.cleaned, cls);
    for (std::size_t r = 1; r < regions_.size(); ++r) {
      const ClassScore score = score_class(chosen.of(regions_[r].classes), empty_);
      if (!score.scored()) continue;
      sums[r] += score.dice;
      ++scored[r];
    }
  }
  Dice dice;
  double sum = 0;
  std::int64_t n = 0;
  for (std::size_t r = 1; r < regions_.size(); ++r) {
    dice.regions.push_back(scored[r] > 0 ? sums[r] / static_cast<double>(scored[r]) : kNotScored);
    if (scored[r] > 0) sum += dice.regions.back(), ++n;
  }
  if (n > 0) dice.mean = sum / static_cast<double>(n);
  return dice;
}

PostprocessLearner::Result PostprocessLearner::result() const {
  Result result;
  Dice best = dice_with(result.steps);
  result.dice_before = best.mean;
  const auto try_steps = [&](const Postprocess& steps) {
    const Dice dice = dice_with(steps);
    if (!dice.improves(best)) return;
    best = dice;
    result.steps = steps;
  };
  try_steps({.foreground = true, .classes = {}});
  const std::int64_t classes = cases_[0].empty() ? 1 : cases_[0].front().kept.classes();
  for (std::int32_t c = 1; c < classes; ++c) {
    Postprocess steps = result.steps;
    steps.classes.push_back(c);
    try_steps(steps);
  }
  result.dice_after = best.mean;
  return result;
}

}  // namespace tandem

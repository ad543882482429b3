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

PostprocessLearner::PostprocessLearner(const std::vector<std::string>& names, EmptyPolicy empty)
    : names_(names) {
  for (const bool foreground : {false, true})
    for (const bool per_class : {false, true})
      ways_.push_back({foreground, per_class, SegmentationScores(names, {.empty = empty})});
}

void PostprocessLearner::add_case(const LabelPair& labels) {
  const std::vector<ScoredRegion> regions = regions_of_classes(names_);
  for (Way& way : ways_) {
    std::vector<std::int32_t> cleaned(labels.prediction.begin(), labels.prediction.end());
    Postprocess steps;
    if (way.per_class) steps = keep_largest_of_all(labels.classes);
    steps.foreground = way.foreground;
    apply(steps, cleaned, labels.shape);
    LabelPair pair = labels;
    pair.prediction = cleaned;
    way.scores.add_case({.scores = score_case(pair, regions, way.scores.options())});
  }
}

PostprocessLearner::Result PostprocessLearner::result() const {
  const auto way = [&](bool foreground, bool per_class) -> const SegmentationScores& {
    return ways_[(foreground ? 2 : 0) + (per_class ? 1 : 0)].scores;
  };
  const auto dice = [](const SegmentationScores& scores, std::size_t c) {
    return scores.summary(static_cast<std::int64_t>(c)).dice;
  };
  Result result;
  result.dice_before = way(false, false).mean_dice();
  bool none_falls = true;
  for (std::size_t c = 1; c < names_.size(); ++c)
    none_falls = none_falls && !(dice(way(true, false), c) < dice(way(false, false), c));
  result.steps.foreground = none_falls && way(true, false).mean_dice() > result.dice_before;
  // A class's step changes only its own Dice: that rising is the mean rising and no class falling.
  const SegmentationScores &base = way(result.steps.foreground, false),
                           &cleaned = way(result.steps.foreground, true);
  double sum = 0;
  std::int64_t n = 0;
  for (std::size_t c = 1; c < names_.size(); ++c) {
    const bool accepted = dice(cleaned, c) > dice(base, c);
    if (accepted) result.steps.classes.push_back(static_cast<std::int32_t>(c));
    if (base.summary(static_cast<std::int64_t>(c)).scored == 0) continue;
    sum += dice(accepted ? cleaned : base, c);
    ++n;
  }
  if (n > 0) result.dice_after = sum / static_cast<double>(n);
  return result;
}

}  // namespace tandem

// What is done to a predicted label map before it is written, and how it is learnt from scored cases.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/case_score.h"

namespace tandem {

// Keep the largest component (26 neighbours) of the whole foreground, then of each of these classes.
struct Postprocess {
  bool foreground = false;
  std::vector<std::int32_t> classes;

  bool empty() const { return !foreground && classes.empty(); }
  friend bool operator==(const Postprocess&, const Postprocess&) = default;
};
// Each class but the background by itself.
Postprocess keep_largest_of_all(std::int64_t classes);
// Changes labels [Z, Y, X] in place; returns how many voxels became background.
std::int64_t apply(const Postprocess& postprocess, std::span<std::int32_t> labels, const Index3& shape);

// nnU-Net's rule: a step is accepted only if the mean Dice over what is scored (the foreground classes, or
// the regions) rises and none of them falls; first the whole foreground, then class by class on what was
// accepted before.
class PostprocessLearner {
 public:
  // `regions` as for score_case: the background first.
  PostprocessLearner(std::vector<ScoredRegion> regions, EmptyPolicy empty);

  void add_case(const LabelPair& labels);
  struct Result {
    Postprocess steps;
    double dice_before = kNotScored, dice_after = kNotScored;  // mean over what is scored
  };
  Result result() const;

 private:
  // One case as predicted, and with every class cleaned: a class's step takes voxels of that class only, so
  // any choice of steps follows from the two.
  struct CaseCounts {
    ConfusionCounts kept, cleaned;
  };
  // Dice of each region but the background, mean over the cases that score it, and the mean of those.
  struct Dice {
    std::vector<double> regions;
    double mean = kNotScored;
    bool improves(const Dice& before) const;
  };
  Dice dice_with(const Postprocess& steps) const;

  std::vector<ScoredRegion> regions_;
  EmptyPolicy empty_;
  std::array<std::vector<CaseCounts>, 2> cases_;  // without and with the step of the whole foreground
};

}  // namespace tandem

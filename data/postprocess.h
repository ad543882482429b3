// What is done to a predicted label map before it is written, and how it is learnt from scored cases.
#pragma once

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

// nnU-Net's rule: a step is accepted only if the mean Dice over the foreground classes rises and no class
// falls; first the whole foreground, then class by class on what that gave.
class PostprocessLearner {
 public:
  explicit PostprocessLearner(const std::vector<std::string>& names, EmptyPolicy empty);

  void add_case(const LabelPair& labels);
  struct Result {
    Postprocess steps;
    double dice_before = kNotScored, dice_after = kNotScored;  // mean over the foreground classes
  };
  Result result() const;

 private:
  // The same cases with one way of clean-up.
  struct Way {
    bool foreground = false, per_class = false;
    SegmentationScores scores;
  };
  std::vector<std::string> names_;
  std::vector<Way> ways_;
};

}  // namespace tandem

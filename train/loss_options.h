// The keys of the job's `loss`, and what they mean as arguments of the losses of core/ops. From them to the
// function that is minimised: train/criterion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/backends/kernel_args.h"
#include "core/config/fields.h"
#include "core/ops/labels.h"

namespace tandem {

// null, a list, or a rule of core/ops/labels.h that is applied to the training data.
struct ClassWeights {
  std::vector<double> values;  // empty: all 1
  std::optional<ClassWeightRule> rule;
};

struct LossOptions {
  // Dice, generalized Dice and Tversky.
  struct Dice {
    bool batch = true, background = false, squared = false;
    double smooth = 1e-5, weight = 1;
  };
  struct CrossEntropy {
    ClassWeights class_weights;
    double label_smoothing = 0, weight = 1;
  };
  struct Bce {
    ClassWeights pos_weight;  // without a rule
    double weight = 1;
  };
  struct Focal {
    double gamma = 2;
    std::optional<double> alpha;
    ClassWeights class_weights;
    double weight = 1;
  };
  struct Tversky {
    double alpha = 0.3, beta = 0.7;
  };
  struct SmoothL1 {
    double beta = 1;
  };

  std::string name = "dice_ce";  // a row of the table in loss_options.cpp
  std::string activation = "softmax";
  Dice dice;
  CrossEntropy ce;
  Bce bce;
  Focal focal;
  Tversky tversky;
  SmoothL1 smooth_l1;
};

Fields fields(LossOptions& options);

// What a loss of class labels is made of; mse, l1 and smooth_l1 have neither part.
struct LossParts {
  std::optional<OverlapLoss> overlap;
  enum class Pointwise { kNone, kCrossEntropy, kBce, kFocal, kError } pointwise = Pointwise::kNone;
};
LossParts loss_parts(const LossOptions& options);
LossActivation loss_activation(const LossOptions& options);
// Arguments of segmentation_loss; only for losses without kError.
SegmentationLossArgs loss_args(const LossOptions& options, std::optional<std::int32_t> ignore_label);
// Whether class weights are given by a rule; then with the weights of `counts` (voxels per class) in its
// place. Error{kConfig} for a class that does not occur.
bool needs_class_counts(const LossOptions& options);
LossOptions with_class_counts(LossOptions options, const std::vector<std::int64_t>& counts);
// What keeps the loss from fitting the labels; `key` is below `loss`.
struct LossFault {
  std::string key, text, hint;
};
// Weights that are not one per class, or a loss that cannot leave ignored voxels out.
std::optional<LossFault> loss_fault(const LossOptions& options, std::int64_t classes, bool ignores);

}  // namespace tandem

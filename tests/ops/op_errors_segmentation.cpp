// The error rows of the losses beyond cross entropy and Dice.
#include <functional>

#include "core/ops/loss.h"
#include "core/ops/regression_loss.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

constexpr DType kI32 = DType::kI32;

// Logits and one label per voxel.
Var logits(Tape& t) { return var(t, {2, 3, 4}); }
Var labels(Tape& t) { return var(t, {2, 4}, kI32); }

}  // namespace

std::vector<OpErrorRow> segmentation_loss_errors() {
  return {
      {"segmentation_loss", "voxelWeights",
       [](Tape& t) {
         return segmentation_loss(logits(t), labels(t), {}, Tensor(Shape{2, 4}, DType::kF32));
       },
       "[segmentation_loss] voxel_weights: got F32 [2, 4], expected F32 [2, 1, 4] for logits [2, 3, 4]"},
      {"cross_entropy", "weights",
       [](Tape& t) {
         return cross_entropy(logits(t), labels(t), {.class_weights = {1, 2}});
       },
       "[cross_entropy] class_weights: got 2 values, expected 3: one per channel of the logits"},
      {"bce_with_logits", "weights",
       [](Tape& t) {
         return bce_with_logits(logits(t), labels(t), {.pos_weight = {1, -2, 1}});
       },
       "[bce_with_logits] pos_weight: got -2, expected finite values >= 0"},
      {"bce_with_logits", "labels",
       [](Tape& t) {
         return bce_with_logits(logits(t), var(t, {2, 2, 4}, kI32));
       },
       "[bce_with_logits] labels: got I32 [2, 2, 4], expected I32 [2, 1, 4] for logits [2, 3, 4]"},
      {"focal_loss", "gamma", [](Tape& t) { return focal_loss(logits(t), labels(t), {.gamma = -1}); },
       "[focal_loss] gamma: got -1, expected 0 <= gamma <= 100"},
      {"focal_loss", "alpha",
       [](Tape& t) {
         return focal_loss(logits(t), labels(t), {.activation = LossActivation::kSigmoid, .alpha = 2});
       },
       "[focal_loss] alpha: got 2, expected 0 <= alpha <= 1"},
      {"focal_loss", "alphaOfSoftmax",
       [](Tape& t) { return focal_loss(logits(t), labels(t), {.alpha = 0.25}); },
       "[focal_loss] alpha: got 0.25 with softmax, expected the sigmoid activation"},
      {"focal_loss", "multiLabelOfSoftmax",
       [](Tape& t) {
         return focal_loss(logits(t), var(t, {2, 3, 4}, kI32));
       },
       "[focal_loss] labels: got I32 [2, 3, 4], expected I32 [2, 1, 4] for logits [2, 3, 4]"},
      {"generalized_dice", "oneClass",
       [](Tape& t) {
         return generalized_dice(var(t, {2, 1, 4}), labels(t));
       },
       "[generalized_dice] classes: got 1, expected at least 2 without the background"},
      {"tversky", "alpha", [](Tape& t) { return tversky(logits(t), labels(t), {.alpha = -1}); },
       "[tversky] alpha and beta: got -1 and 0.7, expected >= 0"},
      {"segmentation_loss", "smoothing",
       [](Tape& t) { return segmentation_loss(logits(t), labels(t), {.label_smoothing = 0.1, .gamma = 2}); },
       "[segmentation_loss] label_smoothing: got 0.1, expected 0 with a focal or sigmoid loss"},
  };
}

// Nothing to average over.
std::vector<OpErrorRow> empty_loss_errors() {
  const auto none = [](const std::string& op, const std::function<Var(const Var&, const Var&)>& call) {
    return OpErrorRow{op, "empty",
                      [call](Tape& t) {
                        return call(var(t, {0, 2, 4}), var(t, {0, 1, 4}, kI32));
                      },
                      "[" + op + "] nothing to average: got logits [0, 2, 4], expected at least one voxel"};
  };
  return {none("bce_with_logits", [](const Var& x, const Var& y) { return bce_with_logits(x, y); }),
          none("focal_loss", [](const Var& x, const Var& y) { return focal_loss(x, y); }),
          none("generalized_dice", [](const Var& x, const Var& y) { return generalized_dice(x, y); }),
          none("tversky", [](const Var& x, const Var& y) { return tversky(x, y); }),
          none("segmentation_loss", [](const Var& x, const Var& y) { return segmentation_loss(x, y, {}); })};
}

std::vector<OpErrorRow> regression_loss_errors() {
  return {{"mse_loss", "shapes",
           [](Tape& t) {
             return mse_loss(logits(t), var(t, {2, 4}));
           },
           "[mse_loss] shapes differ: input [2, 3, 4], target [2, 4]"},
          {"l1_loss", "empty",
           [](Tape& t) {
             return l1_loss(var(t, {0, 4}), var(t, {0, 4}));
           },
           "[l1_loss] nothing to average: got [0, 4], expected at least one element"},
          {"smooth_l1_loss", "empty",
           [](Tape& t) {
             return smooth_l1_loss(var(t, {0, 4}), var(t, {0, 4}));
           },
           "[smooth_l1_loss] nothing to average: got [0, 4], expected at least one element"},
          {"mse_loss", "empty",
           [](Tape& t) {
             return mse_loss(var(t, {0, 4}), var(t, {0, 4}));
           },
           "[mse_loss] nothing to average: got [0, 4], expected at least one element"},
          {"l1_loss", "dtypes",
           [](Tape& t) {
             return l1_loss(logits(t), var(t, {2, 3, 4}, DType::kF16));
           },
           "[l1_loss] dtypes differ: input F32 [2, 3, 4], target F16 [2, 3, 4]"},
          {"smooth_l1_loss", "beta", [](Tape& t) { return smooth_l1_loss(logits(t), logits(t), 0); },
           "[smooth_l1_loss] beta: got 0, expected a finite number > 0"}};
}

}  // namespace tandem::testing

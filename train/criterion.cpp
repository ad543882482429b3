// The table of losses that a job can name.
#include "train/criterion.h"

#include "core/ops/loss.h"
#include "data/label_map.h"

namespace tandem {

Criterion make_criterion(const LossOptions& options) {
  const DiceOptions dice{.batch = options.dice.batch,
                         .background = options.dice.background,
                         .smooth = options.dice.smooth,
                         .ignore_label = kIgnoredLabel};
  const DiceCeOptions both{.dice = dice,
                           .dice_weight = options.name == "ce" ? 0 : options.dice.weight,
                           .ce_weight = options.name == "dice" ? 0 : options.ce.weight,
                           .label_smoothing = options.ce.label_smoothing};
  return [both](const Outputs& outputs, const Var& label) { return dice_ce(outputs.main, label, both); };
}

double loss_offset(const LossOptions& options) { return options.name == "ce" ? 0 : options.dice.weight; }

}  // namespace tandem

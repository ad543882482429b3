// What `tandem summary` lists: the ops of a model's forward pass with their parameters and cost, so that the
// rows hold every parameter once. How it is printed is apps/summary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/context.h"
#include "core/tensor/tensor.h"
#include "layers/module.h"

namespace tandem {

struct SummaryRow {
  std::string module, op, output;
  std::int64_t parameters = 0;  // those that no row before has
  double macs = 0;              // multiply-accumulates
  bool training_only = false;   // no part of a prediction: coarser outputs of deep supervision
};

struct ModelSummary {
  std::vector<SummaryRow> rows;
  std::string memory;  // peak of the tensors of one forward pass, for people
};

// Runs `model`, whose parameters are bound, on zeros of `input`: as in a prediction, and as in training where
// that leaves parameters out. Those that neither uses get a row "not used" per module.
ModelSummary summarise_model(Module& model, Context context, const Shape& input);

}  // namespace tandem

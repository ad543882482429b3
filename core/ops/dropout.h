// Dropout: elements set to zero at random in training.
#pragma once

#include "core/autograd/tape.h"

namespace tandem {

// In training each element is kept with probability 1 - p and divided by 1 - p, else 0; in evaluation, or
// with p = 0, x itself. 0 <= p < 1. Element i of the channels-last storage takes draw i of the stream (seed,
// kDropout, context.draw, number of the dropout on its tape): the mask does not depend on threads or device,
// and backward draws it again instead of saving it. (Srivastava et al. 2014)
Var dropout(const Var& x, double p);

}  // namespace tandem

// A parameter as a leaf of a tape.
#include "core/params/parameter.h"

#include "core/base/error.h"

namespace tandem {

Var Parameter::on(Tape& tape) const {
  check_internal(is_bound(), "a parameter used before a ParamStore bound it");
  return tape.parameter(value_, gradient_);
}

}  // namespace tandem

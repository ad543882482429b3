// A parameter as a leaf of a tape.
#include "core/params/parameter.h"

#include "core/base/error.h"

namespace tandem {

Var Parameter::on(Tape& tape) const {
  check_internal(is_bound(), "a parameter used before a ParamStore bound it");
  const bool wide = is_16_bit_float(value_.dtype()) && tape.context().compute == DType::kF32;
  return tape.parameter(wide ? master_ : value_, gradient_);
}

}  // namespace tandem

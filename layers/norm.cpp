// Normalisation layers.
#include "layers/norm.h"

#include "core/base/error.h"

namespace tandem {
namespace {

const InstanceNorm::Options& checked(const InstanceNorm::Options& o) {
  if (o.channels < 1)
    fail(ErrorKind::kShape, "[instance_norm] no channels: got {}, expected 1 or more", o.channels);
  return o;
}

}  // namespace

InstanceNorm::InstanceNorm(const Options& o)
    : options_(checked(o)),
      weight_(Shape{o.channels}, ParamRegion::kKept, {Initializer::Kind::kOnes}),
      bias_(Shape{o.channels}, ParamRegion::kKept, {Initializer::Kind::kZeros}) {
  add("weight", weight_);
  add("bias", bias_);
}

Outputs InstanceNorm::forward(const Var& x) {
  Tape& tape = x.tape();
  return instance_norm(x, weight_.on(tape), bias_.on(tape),
                       {.eps = options_.eps, .activation = options_.activation, .slope = options_.slope});
}

}  // namespace tandem

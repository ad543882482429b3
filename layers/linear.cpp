// The fully connected layer.
#include "layers/linear.h"

#include "core/base/error.h"
#include "core/ops/linear.h"
#include "layers/layer_parts.h"

namespace tandem {
namespace {

const Linear::Options& checked(const Linear::Options& o) {
  if (o.in < 1 || o.out < 1)
    fail(ErrorKind::kShape, "[linear] no features: got in = {}, out = {}, expected 1 or more", o.in, o.out);
  return o;
}

}  // namespace

Linear::Linear(const Options& o)
    : options_(checked(o)),
      weight_(Shape{o.out, o.in}, ParamRegion::kCast, o.weight_init),
      bias_(Shape{o.out}, ParamRegion::kKept, layer_parts::bias_initializer(o.bias_init, weight_.shape())) {
  add("weight", weight_);
  if (o.bias) add("bias", bias_);
}

Outputs Linear::forward(const Var& x) {
  const Var bias = options_.bias ? bias_.on(x.tape()) : Var();
  const Var weight = weight_.on(x.tape());
  return linear(layer_parts::in_dtype_of(x, weight), weight, bias);
}

}  // namespace tandem

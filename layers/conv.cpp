// Convolution layers.
#include "layers/conv.h"

#include "core/base/error.h"
#include "core/ops/conv.h"
#include "layers/layer_parts.h"

namespace tandem {
namespace {

// `o`, whose sizes make a layer; the ops check strides and paddings against the input.
template <class Options>
const Options& checked(std::string_view layer, const Options& o) {
  if (o.dims < 1 || o.dims > 3)
    fail(ErrorKind::kShape, "[{}] wrong number of dimensions: got dims = {}, expected 1, 2 or 3", layer,
         o.dims);
  if (o.in < 1 || o.out < 1 || o.groups < 1 || o.in % o.groups != 0 || o.out % o.groups != 0)
    fail(ErrorKind::kShape,
         "[{}] channels and groups do not fit: got in = {}, out = {}, groups = {}, expected positive "
         "multiples of "
         "groups",
         layer, o.in, o.out, o.groups);
  for (int axis = 3 - o.dims; axis < 3; ++axis)
    if (const auto i = static_cast<std::size_t>(axis); o.kernel[i] < 1)
      fail(ErrorKind::kShape, "[{}] a kernel without taps: got [{}, {}, {}], expected sizes of 1 or more",
           layer, o.kernel[0], o.kernel[1], o.kernel[2]);
  return o;
}

}  // namespace

Conv::Conv(const Options& o)
    : options_(checked("conv", o)),
      weight_(layer_parts::weight_shape(o.out, o.in / o.groups, o.dims, o.kernel), ParamRegion::kCast,
              o.weight_init),
      bias_(Shape{o.out}, ParamRegion::kKept, layer_parts::bias_initializer(o.bias_init, weight_.shape())) {
  add("weight", weight_);
  if (o.bias) add("bias", bias_);
}

Outputs Conv::forward(const Var& x) {
  const ConvOptions options{options_.stride, options_.padding, options_.dilation, options_.groups};
  const Var bias = options_.bias ? bias_.on(x.tape()) : Var();
  const Var weight = weight_.on(x.tape());
  return conv(layer_parts::in_dtype_of(x, weight), weight, bias, options);
}

ConvTranspose::ConvTranspose(const Options& o)
    : options_(checked("conv_transpose", o)),
      weight_(layer_parts::weight_shape(o.in, o.out / o.groups, o.dims, o.kernel), ParamRegion::kCast,
              o.weight_init),
      bias_(Shape{o.out}, ParamRegion::kKept, layer_parts::bias_initializer(o.bias_init, weight_.shape())) {
  add("weight", weight_);
  if (o.bias) add("bias", bias_);
}

Outputs ConvTranspose::forward(const Var& x) {
  const ConvTransposeOptions options{options_.stride, options_.padding, options_.output_padding,
                                     options_.dilation, options_.groups};
  const Var bias = options_.bias ? bias_.on(x.tape()) : Var();
  const Var weight = weight_.on(x.tape());
  return conv_transpose(layer_parts::in_dtype_of(x, weight), weight, bias, options);
}

}  // namespace tandem

// Caffe's LeNet from the layers.
#include "layers/models/sample_cnn.h"

#include "core/base/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/pool.h"
#include "core/ops/shape_ops.h"

namespace tandem {
namespace {

constexpr std::int64_t kImageSize = 28;

}  // namespace

SampleCnn::SampleCnn(std::int64_t in_channels, std::int64_t classes)
    : conv1_({.dims = 2, .in = in_channels, .out = 20, .kernel = 5}),
      conv2_({.dims = 2, .in = 20, .out = 50, .kernel = 5}),
      fc1_({.in = 50 * 4 * 4, .out = 500}),
      fc2_({.in = 500, .out = classes}) {
  add("conv1", conv1_);
  add("conv2", conv2_);
  add("fc1", fc1_);
  add("fc2", fc2_);
}

Outputs SampleCnn::forward(const Var& x) {
  const Shape& shape = x.shape();
  if (shape.rank() != 4 || shape[2] != kImageSize || shape[3] != kImageSize)
    throw Error(ErrorKind::kShape,
                fmt::format("[sample_cnn] wrong image size: got {}, expected [N, C, {}, {}]",
                            to_string(shape), kImageSize, kImageSize),
                "Resize the images, or choose another model.name.");
  const Var first = max_pool(conv1_(x), {.window = {1, 2, 2}});
  const Var second = max_pool(conv2_(first), {.window = {1, 2, 2}});
  return fc2_(relu(fc1_(flatten(second))));
}

}  // namespace tandem

// nnU-Net's PlainConvUNet from the layers.
#include "layers/models/unet3d.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/ops/elementwise.h"
#include "core/ops/shape_ops.h"
#include "layers/models/unet3d_options.h"

namespace tandem {
namespace {

constexpr Initializer kConvInit{Initializer::Kind::kKaimingNormal, 0.01};
constexpr Initializer kZeroInit{Initializer::Kind::kZeros};

Triple same_padding(const std::array<std::int64_t, 3>& kernel) {
  return {(kernel[0] - 1) / 2, (kernel[1] - 1) / 2, (kernel[2] - 1) / 2};
}

// The two convolutions of a stage; the first takes its stride.
std::unique_ptr<DoubleConv> make_stage(std::int64_t in, std::int64_t out, const UNet3dOptions& o,
                                       std::size_t level, const Triple& stride) {
  const Triple kernel = o.kernel(level);
  Conv::Options first{.in = in,
                      .out = out,
                      .kernel = kernel,
                      .stride = stride,
                      .padding = same_padding(kernel),
                      .weight_init = kConvInit,
                      .bias_init = kZeroInit};
  Conv::Options second = first;
  second.in = out;
  second.stride = 1;
  return std::make_unique<DoubleConv>(first, second,
                                      BlockOptions{.norm = parse_norm(o.norm).value(),
                                                   .activation = parse_activation(o.activation).value(),
                                                   .dropout = o.dropout});
}

// The skip joins the decoder in the dtype in which the next convolution computes, whatever dtype either came
// in.
Var in_dtype(const Var& x, DType dtype) { return x.dtype() == dtype ? x : cast(x, dtype); }

}  // namespace

UNet3d::UNet3d(const UNet3dOptions& options, std::int64_t in_channels, std::int64_t classes)
    : options_(options) {
  check_options(options_);
  if (in_channels < 1 || classes < 1)
    fail(ErrorKind::kConfig, "[unet3d] got {} input channels and {} classes, expected 1 or more of each",
         in_channels, classes);
  const auto& features = options_.features;
  for (std::size_t s = 0; s < features.size(); ++s) {
    encoder_.push_back(
        make_stage(s == 0 ? in_channels : features[s - 1], features[s], options_, s, options_.stride(s)));
    add(fmt::format("enc{}", s), *encoder_.back());
  }
  decoder_.resize(features.size() - 1);
  for (std::size_t s = decoder_.size(); s-- > 0;) {
    Level& level = decoder_[s];
    level.up = std::make_unique<ConvTranspose>(ConvTranspose::Options{.in = features[s + 1],
                                                                      .out = features[s],
                                                                      .kernel = options_.stride(s + 1),
                                                                      .stride = options_.stride(s + 1),
                                                                      .weight_init = kConvInit,
                                                                      .bias_init = kZeroInit});
    level.stage = make_stage(2 * features[s], features[s], options_, s, 1);
    add(fmt::format("up{}", s), *level.up);
    add(fmt::format("dec{}", s), *level.stage);
  }
  for (std::size_t s = 0; s < decoder_.size(); ++s) {
    decoder_[s].head = std::make_unique<Conv>(Conv::Options{
        .in = features[s], .out = classes, .kernel = 1, .weight_init = kConvInit, .bias_init = kZeroInit});
    add(fmt::format("head{}", s), *decoder_[s].head);
  }
}

UNet3d::~UNet3d() = default;

void UNet3d::check_input(const Var& x) const {
  const Shape& shape = x.shape();
  if (shape.rank() != 5)
    fail(ErrorKind::kShape, "[unet3d] the input is not a batch of volumes: got {}, expected [N, C, D, H, W]",
         to_string(shape));
  const auto multiple = options_.size_multiple();
  std::array<std::int64_t, 3> fitting{};
  bool fits = true;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t size = shape[static_cast<int>(axis) + 2];
    fitting[axis] = std::max<std::int64_t>((size + multiple[axis] - 1) / multiple[axis], 1) * multiple[axis];
    fits = fits && fitting[axis] == size;
  }
  if (fits) return;
  throw Error(
      ErrorKind::kShape,
      fmt::format("[unet3d] the input does not divide by the strides: got {}, expected depth, height and "
                  "width to be multiples of {}, {} and {}",
                  to_string(shape), multiple[0], multiple[1], multiple[2]),
      fmt::format("Set patch.size: [{}, {}, {}], or fewer stages or smaller model.strides.", fitting[0],
                  fitting[1], fitting[2]));
}

Outputs UNet3d::forward(const Var& x) {
  check_input(x);
  std::vector<Var> skips, coarse;  // coarse: heads above the finest, coarsest first
  Var h = x;
  const bool all_heads = options_.deep_supervision && x.tape().context().training;
  for (const auto& stage : encoder_) {
    h = (*stage)(h);
    skips.push_back(h);
  }
  for (std::size_t s = decoder_.size(); s-- > 0;) {
    const Level& level = decoder_[s];
    const DType dtype = level.stage->input_dtype();
    const std::array<Var, 2> parts{in_dtype((*level.up)(h), dtype), in_dtype(skips[s], dtype)};
    skips.resize(s);  // what the rest of the decoder needs
    h = (*level.stage)(concat(parts));
    if (all_heads && s > 0) coarse.push_back((*level.head)(h));
  }
  const Var main = (*decoder_.front().head)(h);
  return {main, {coarse.rbegin(), coarse.rend()}};
}

}  // namespace tandem

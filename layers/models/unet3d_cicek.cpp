// The original 3D U-Net from the layers.
#include "layers/models/unet3d_cicek.h"

#include <array>

#include "core/base/error.h"
#include "core/ops/box.h"
#include "core/ops/elementwise.h"
#include "core/ops/pool.h"
#include "core/ops/shape_ops.h"

namespace tandem {
namespace {

constexpr std::int64_t kStages = 4, kBase = 32;
// What the convolutions take from each side, and sizes that every pooling halves: 4 more than a multiple
// of 8.
constexpr std::int64_t kMargin = 44, kStep = 8, kRest = 4;

std::unique_ptr<DoubleConv> stage(std::int64_t in, std::int64_t middle, std::int64_t out) {
  const BlockOptions options{.norm = {.kind = NormSpec::Kind::kBatch},
                             .activation = {.kind = Activation::kRelu}};
  return std::make_unique<DoubleConv>(Conv::Options{.in = in, .out = middle},
                                      Conv::Options{.in = middle, .out = out}, options);
}

std::array<std::int64_t, 3> spatial_of(const Var& x) { return x.shape().spatial(); }

// The middle of `x` in the size of `like`.
Var middle_of(const Var& x, const Var& like) {
  const auto whole = spatial_of(x), size = spatial_of(like);
  std::array<std::int64_t, 3> begin{};
  for (std::size_t a = 0; a < 3; ++a) begin[a] = (whole[a] - size[a]) / 2;
  return crop(x, begin, size);
}

void check_valid_input(const Shape& shape) {
  bool fits = true;
  for (const std::int64_t size : shape.spatial())
    fits = fits && size >= 2 * kMargin + kRest && (size - kRest) % kStep == 0;
  if (!fits)
    throw Error(ErrorKind::kShape,
                fmt::format("[unet3d_cicek] the input does not fit the valid convolutions: got {}, expected "
                            "sizes of at least {}, each {} more than a multiple of {}",
                            to_string(shape), 2 * kMargin + kRest, kRest, kStep),
                "Take 132 x 132 x 116 as the paper does.");
}

}  // namespace

UNet3dCicek::UNet3dCicek(std::int64_t in_channels, std::int64_t classes, Border border)
    : border_(border), head_({.in = 2 * kBase, .out = classes, .kernel = 1}) {
  std::int64_t channels = in_channels;
  for (std::int64_t s = 0; s < kStages; ++s) {
    const std::int64_t middle = kBase << s;  // doubled before the pooling
    encoder_.push_back(stage(channels, middle, 2 * middle));
    channels = 2 * middle;
    add(fmt::format("enc{}", s), *encoder_.back());
  }
  decoder_.resize(kStages - 1);
  for (std::size_t s = decoder_.size(); s-- > 0;) {
    Level& level = decoder_[s];
    const std::int64_t skip = channels / 2;
    level.up = std::make_unique<ConvTranspose>(
        ConvTranspose::Options{.in = channels, .out = channels, .bias = false});
    level.stage = stage(channels + skip, skip, skip);
    channels = skip;
    add(fmt::format("up{}", s), *level.up);
    add(fmt::format("dec{}", s), *level.stage);
  }
  add("head", head_);
}

Outputs UNet3dCicek::forward(const Var& x) {
  if (x.shape().rank() != 5)
    fail(ErrorKind::kShape,
         "[unet3d_cicek] the input is not a batch of volumes: got {}, expected [N, C, D, H, W]",
         to_string(x.shape()));
  if (border_ == Border::kValid) {
    check_valid_input(x.shape());
    return valid(x);
  }
  std::array<std::int64_t, 3> before{kMargin, kMargin, kMargin}, after = before;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t size = spatial_of(x)[a];
    after[a] += (kRest - size % kStep + kStep) % kStep;
  }
  return crop(valid(pad(x, before, after)), {0, 0, 0}, spatial_of(x));
}

Var UNet3dCicek::valid(const Var& x) {
  std::vector<Var> skips;
  Var h = x;
  for (std::size_t s = 0; s < encoder_.size(); ++s) {
    if (s > 0) h = max_pool(h, {.window = {2, 2, 2}});
    h = (*encoder_[s])(h);
    skips.push_back(h);
  }
  for (std::size_t s = decoder_.size(); s-- > 0;) {
    const DType dtype = decoder_[s].stage->input_dtype();
    const Var up = cast((*decoder_[s].up)(h), dtype);
    const std::array<Var, 2> parts{cast(middle_of(skips[s], up), dtype), up};
    skips.resize(s);
    h = (*decoder_[s].stage)(concat(parts));
  }
  return head_(h);
}

}  // namespace tandem

// The parts of a convolution block and their order: conv, dropout, norm, activation (nnU-Net's).
#include "layers/models/conv_block.h"

#include "core/ops/dropout.h"

namespace tandem {

ConvBlock::ConvBlock(const Conv::Options& conv, const BlockOptions& options)
    : options_(options),
      conv_(conv),
      norm_(make_norm(
          options.norm,
          {.channels = conv.out, .activation = options.activation.kind, .slope = options.activation.slope})),
      learned_(options.activation.is_learned ? std::make_unique<PRelu>(conv.out) : nullptr) {}

Var ConvBlock::operator()(const Var& x) {
  const Var dropped = dropout(conv_(x), options_.dropout);
  const Var h = norm_ ? (*norm_)(dropped).main : activate(dropped, options_.activation);
  return learned_ ? (*learned_)(h).main : h;
}

DoubleConv::DoubleConv(const Conv::Options& first, const Conv::Options& second, const BlockOptions& options)
    : first_(first, options), second_(second, options) {
  add_block(first_, "1");
  add_block(second_, "2");
}

void DoubleConv::add_block(ConvBlock& block, const std::string& suffix) {
  add("conv" + suffix, block.conv());
  if (block.norm() != nullptr) add("norm" + suffix, *block.norm());
  if (block.learned_activation() != nullptr) add("act" + suffix, *block.learned_activation());
}

}  // namespace tandem

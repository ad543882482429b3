// A convolution with what follows it: dropout, normalisation, activation. The block of the U-Nets. Private to
// layers/models.
#pragma once

#include <memory>

#include "layers/activation.h"
#include "layers/conv.h"
#include "layers/norm.h"

namespace tandem {

struct BlockOptions {
  NormSpec norm;
  ActivationSpec activation;
  double dropout = 0;
};

// Registers into a module that has several blocks: members are named conv1, norm1, act1 for suffix "1". norm1
// is absent for norm: none, act1 (weight) is there for prelu alone; other activations are fused into the
// norm.
class ConvBlock {
 public:
  ConvBlock(const Conv::Options& conv, const BlockOptions& options);

  Var operator()(const Var& x);
  Conv& conv() { return conv_; }
  const Conv& conv() const { return conv_; }
  NormLayer* norm() { return norm_.get(); }
  PRelu* learned_activation() { return learned_.get(); }

 private:
  BlockOptions options_;
  Conv conv_;
  std::unique_ptr<NormLayer> norm_;
  std::unique_ptr<PRelu> learned_;
};

// Two blocks, conv1 ... and conv2 ...: a stage of a U-Net.
class DoubleConv : public Module {
 public:
  DoubleConv(const Conv::Options& first, const Conv::Options& second, const BlockOptions& options);

  DType input_dtype() const { return first_.conv().compute_dtype(); }

 protected:
  Outputs forward(const Var& x) override { return second_(first_(x)); }

 private:
  void add_block(ConvBlock& block, const std::string& suffix);

  ConvBlock first_, second_;
};

}  // namespace tandem

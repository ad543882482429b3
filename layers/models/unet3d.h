// unet3d: nnU-Net's PlainConvUNet in three dimensions. Its options are the keys of `model` in a job file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/fields.h"
#include "layers/models/conv_block.h"

namespace tandem {

struct UNet3dOptions {
  std::vector<std::int64_t> features{32, 64, 128, 256, 320, 320};  // channels per stage, finest first
  // Per stage, z y x. Strides: absent 1 for the first stage, then 2; the first must be 1. Kernels: odd;
  // absent 3.
  std::optional<std::vector<std::array<std::int64_t, 3>>> strides, kernels;
  std::string norm = "instance";               // parse_norm's words
  std::string activation = "leaky_relu:0.01";  // parse_activation's words
  double dropout = 0;                          // probability, after each convolution of a stage
  bool deep_supervision = false;               // training computes the coarser heads too

  std::array<std::int64_t, 3> stride(std::size_t stage) const;
  std::array<std::int64_t, 3> kernel(std::size_t stage) const;
  // Product of the strides: spatial sizes must be multiples of it.
  std::array<std::int64_t, 3> size_multiple() const;
};
// Adds the fields to those of a larger struct; rules included.
Fields& describe(Fields& description, UNet3dOptions& options);
Fields fields(UNet3dOptions& options);

// x [N, in, D, H, W] -> logits [N, classes, D, H, W]. (Isensee et al. 2021; dynamic_network_architectures'
// PlainConvUNet, two convolutions per stage.) Stage s: conv (stride of the stage) -> dropout -> norm, eps
// 1e-5 -> activation, twice. Decoder level s: transposed conv with kernel = stride of stage s + 1,
// concatenated in front of the encoder's output, then two such blocks. A 1x1x1 head per decoder level;
// head0 gives the main output, the others (Outputs::auxiliary, finer first) are computed in training with
// deep_supervision.
//
// Parameters in order: enc0 ... encN (conv1.weight, conv1.bias, norm1.weight, norm1.bias, conv2...,
// norm2...); from coarse to fine upS (weight, bias), decS (as enc); head0, head1, ... (weight, bias). S is
// the resolution level, 0 the finest. Weights of convolutions start as Kaiming normal with a = 0.01, biases
// as 0.
class UNet3d : public Module {
 public:
  // Throws Error{kConfig} for options that make no network.
  UNet3d(const UNet3dOptions& options, std::int64_t in_channels, std::int64_t classes);
  ~UNet3d() override;

  const UNet3dOptions& options() const { return options_; }

 protected:
  Outputs forward(const Var& x) override;

 private:
  struct Level {
    std::unique_ptr<ConvTranspose> up;
    std::unique_ptr<DoubleConv> stage;
    std::unique_ptr<Conv> head;
  };

  void check_input(const Var& x) const;

  UNet3dOptions options_;
  std::vector<std::unique_ptr<DoubleConv>> encoder_;
  std::vector<Level> decoder_;  // by resolution level, finest first
};

}  // namespace tandem

// unet3d_cicek: the original 3D U-Net, with valid convolutions. nnU-Net's is unet3d.
#pragma once

#include <memory>
#include <vector>

#include "layers/models/conv_block.h"

namespace tandem {

// (Cicek et al. 2016.) Encoder stages of two 3^3 convolutions without padding, each with batch norm and ReLU,
// 2^3 max pooling between them: in-32-64, 64-64-128, 128-128-256, 256-256-512. Decoder: 2^3 transposed
// convolution with stride 2, the middle of the encoder's output concatenated in front of it, two convolutions
// of 256, 128 and 64 channels; 1^3 head.
//
// Parameters in order: enc0 ... enc3 (conv1, norm1, conv2, norm2), from coarse to fine up2, dec2 ... up0,
// dec0, head; up has no bias. For 3 input channels and 3 classes 19,069,955 without the 4,672 of batch norm,
// which is how the paper counts.
class UNet3dCicek : public Module {
 public:
  // kValid: [N, in, S] -> [N, classes, S - 88], each size S at least 92 and 4 more than a multiple of 8 (132
  // x 132 x 116 -> 44 x 44 x 28). kZeros: the input is set into zeros so that the output has its size, for
  // jobs whose labels cover the patch.
  enum class Border { kValid, kZeros };

  UNet3dCicek(std::int64_t in_channels, std::int64_t classes, Border border);

 protected:
  Outputs forward(const Var& x) override;

 private:
  struct Level {
    std::unique_ptr<ConvTranspose> up;
    std::unique_ptr<DoubleConv> stage;
  };

  Var valid(const Var& x);

  Border border_;
  std::vector<std::unique_ptr<DoubleConv>> encoder_;
  std::vector<Level> decoder_;  // finest first
  Conv head_;
};

}  // namespace tandem

// sample_cnn: a small classifier of 28 x 28 images (Caffe's LeNet).
#pragma once

#include "layers/conv.h"
#include "layers/linear.h"

namespace tandem {

// x [N, in, 28, 28] -> logits [N, classes]: conv in-20 k5, max pool 2, conv 20-50 k5, max pool 2, linear
// 800-500, ReLU, linear 500-classes; no activation after the convolutions. 431,080 parameters for 1 channel
// and 10 classes. Parameters in order: conv1, conv2, fc1, fc2 (weight, bias each), initialised as PyTorch's
// layers. (LeCun et al. 1998; BVLC Caffe's lenet_train_test)
class SampleCnn : public Module {
 public:
  SampleCnn(std::int64_t in_channels, std::int64_t classes);

 protected:
  Outputs forward(const Var& x) override;

 private:
  Conv conv1_, conv2_;
  Linear fc1_, fc2_;
};

}  // namespace tandem

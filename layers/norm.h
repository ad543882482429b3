// Normalisation layers, alone or fused with the activation that follows.
#pragma once

#include "core/ops/norm.h"
#include "layers/module.h"

namespace tandem {

// y = activation((x - mean) / sqrt(var + eps) * weight + bias), statistics over the voxels of each (n, c); no
// running statistics. x [N, channels, spatial] -> same shape and dtype. Parameters, FP32: weight [channels] =
// 1, bias [channels] = 0.
class InstanceNorm : public Module {
 public:
  struct Options {
    std::int64_t channels = 0;
    double eps = 1e-5;
    Activation activation = Activation::kNone;
    double slope = 0.01;  // of kLeakyRelu
  };

  explicit InstanceNorm(const Options& options);

 protected:
  Outputs forward(const Var& x) override;

 private:
  Options options_;
  Parameter weight_, bias_;
};

}  // namespace tandem

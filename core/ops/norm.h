// Normalisation, alone or fused with the activation that follows; statistics, scale and shift in FP32.
#pragma once

#include "core/autograd/tape.h"

namespace tandem {

struct InstanceNormOptions {
  double eps = 1e-5;
  Activation activation = Activation::kNone;
  double slope = 0.01;  // of kLeakyRelu
};

// y = activation((x - mean) / sqrt(var + eps) * scale + shift), mean and biased variance over the voxels of
// each (n, c). x [N,C,spatial] with at least one voxel, scale and shift F32 [C] -> x's shape and dtype.
// (Ulyanov et al. 2016)
Var instance_norm(const Var& x, const Var& scale, const Var& shift, const InstanceNormOptions& options = {});

}  // namespace tandem

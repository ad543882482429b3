// Normalisation, alone or fused with the activation that follows; statistics, scale and shift in FP32.
#pragma once

#include "core/autograd/tape.h"

namespace tandem {

// y = activation((x - mean) / sqrt(var + eps) * scale + shift), with the biased variance. The ops differ in
// the elements that mean and var are of. scale and shift F32 [C]; y has x's shape and dtype.
struct NormOptions {
  double eps = 1e-5;
  Activation activation = Activation::kNone;
  double slope = 0.01;  // of kLeakyRelu; alpha of kElu
};

// Of the voxels of each (n, c). x [N,C,spatial] with at least one voxel. (Ulyanov et al. 2016)
Var instance_norm(const Var& x, const Var& scale, const Var& shift, const NormOptions& options = {});
// Of the voxels of C / groups adjacent channels of a sample. x [N,C] or [N,C,spatial]. (Wu and He 2018)
Var group_norm(const Var& x, const Var& scale, const Var& shift, std::int64_t groups,
               const NormOptions& options = {});
// Of the channels of each voxel. x [N,C] or [N,C,spatial]. (Ba et al. 2016; over C as ConvNeXt's)
Var layer_norm(const Var& x, const Var& scale, const Var& shift, const NormOptions& options = {});

// What a batch adds to running statistics: F32 [C], and the number of values behind each.
struct BatchMoments {
  Tensor mean, variance;  // variance biased; both undefined for an empty batch
  std::int64_t count = 0;
};

// Of all voxels of each channel, in training. x [N,C] or [N,C,spatial] with at least two values per channel
// (or an empty batch). moments: written unless null. (Ioffe and Szegedy 2015)
Var batch_norm(const Var& x, const Var& scale, const Var& shift, const NormOptions& options = {},
               BatchMoments* moments = nullptr);
// With given statistics, F32 [C], in evaluation: mean and var have no gradient.
struct FixedMoments {
  Tensor mean, variance;
};
Var batch_norm_eval(const Var& x, const Var& scale, const Var& shift, const FixedMoments& moments,
                    const NormOptions& options = {});

}  // namespace tandem

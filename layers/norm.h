// Normalisation layers, alone or fused with the activation that follows. What they compute:
// core/ops/norm.h.
#pragma once

#include <memory>
#include <optional>

#include "core/ops/norm.h"
#include "layers/buffer.h"
#include "layers/module.h"

namespace tandem {

// What all have: parameters weight [channels] = 1 and bias [channels] = 0, FP32; x's shape and dtype stay.
// Throws Error{kShape} for options that make no layer.
class NormLayer : public Module {
 public:
  struct Options {
    std::int64_t channels = 0;
    double eps = 1e-5;
    Activation activation = Activation::kNone;
    double slope = 0.01;  // of kLeakyRelu; alpha of kElu
  };

 protected:
  NormLayer(std::string_view layer, const Options& options);
  NormOptions norm_options() const { return {options_.eps, options_.activation, options_.slope}; }

  Options options_;
  Parameter weight_, bias_;
};

// Statistics over the voxels of each (n, c); none are kept. x [N, channels, spatial].
class InstanceNorm : public NormLayer {
 public:
  explicit InstanceNorm(const Options& options) : NormLayer("instance_norm", options) {}

 protected:
  Outputs forward(const Var& x) override;
};

// Over the voxels of channels / groups adjacent channels. x [N, channels] or [N, channels, spatial].
class GroupNorm : public NormLayer {
 public:
  GroupNorm(const Options& options, std::int64_t groups);

 protected:
  Outputs forward(const Var& x) override;

 private:
  std::int64_t groups_;
};

// Over the channels of each voxel. x [N, channels] or [N, channels, spatial].
class LayerNorm : public NormLayer {
 public:
  explicit LayerNorm(const Options& options) : NormLayer("layer_norm", options) {}

 protected:
  Outputs forward(const Var& x) override;
};

// Over all voxels of each channel in training; in evaluation by the running statistics. x [N, channels] or
// [N, channels, spatial].
//
// Buffers, FP32: running_mean = 0, running_var = 1 [channels], num_batches_tracked = 0 (I64 scalar). A
// recorded forward pass in training leaves its batch's mean and variance pending; commit() of a good step
// folds the pending ones in, in order: running = (1 - momentum) running + momentum batch, with the unbiased
// variance (count / (count - 1)). A step that is not applied leaves no trace.
class BatchNorm : public NormLayer {
 public:
  explicit BatchNorm(const Options& options, double momentum = 0.1);

 protected:
  Outputs forward(const Var& x) override;
  void settle(bool accepted) override;

 private:
  void fold_in(const BatchMoments& moments);

  double momentum_;
  Buffer running_mean_, running_var_, batches_;
  std::vector<BatchMoments> pending_;
};

// A normalisation by its word in a job file.
struct NormSpec {
  enum class Kind { kNone, kInstance, kBatch, kGroup };
  Kind kind = Kind::kInstance;
  std::int64_t groups = 1;  // of kGroup
};
// none, instance, batch or group:N with N >= 1; nothing for other words.
std::optional<NormSpec> parse_norm(std::string_view text);
// The layer of `spec`; null for kNone.
std::unique_ptr<NormLayer> make_norm(const NormSpec& spec, const NormLayer::Options& options);

}  // namespace tandem

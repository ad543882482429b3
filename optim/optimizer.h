// SGD, Adam and AdamW over a ParamStore: options, moments, and one fused step per region. Knows nothing of
// the model.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/config/fields.h"
#include "core/kernels/optimizer.h"
#include "core/params/param_store.h"

namespace tandem {

// Names: JOB.md, optimizer.
struct OptimizerOptions {
  OptimizerKind name = OptimizerKind::kAdamW;
  double lr = 1e-3, weight_decay = 0;
  double momentum = 0;  // sgd
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // adam, adamw
};
Fields fields(OptimizerOptions& options);

class Optimizer {
 public:
  // `store` must outlive the optimizer. Moments start at zero.
  Optimizer(const OptimizerOptions& options, ParamStore& store);

  // Checks all gradients of the store in one pass (FP64 norm) and completes `state` for step(): event (unless
  // it is kForward already), grad_norm = |unscaled gradient|, clip. max_norm <= 0: no clipping.
  void check_gradients(StepState& state, double max_norm) const;
  // One fused pass per region: unscale, clip, decay, moments, master, 16-bit copy. Changes nothing unless
  // state.event is kGood. Throws Error{kNumeric} naming the parameter whose copy became infinite.
  void step(StepState& state);

  // The moments as flat tensors with their names ("momentum"; "exp_avg", "exp_avg_sq"), per region, for
  // checkpoints.
  struct Moment {
    std::string name;
    ParamRegion region;
    Tensor flat;
  };
  const std::vector<Moment>& moments() const { return moments_; }
  const OptimizerOptions& options() const { return options_; }

 private:
  OptimizerOptions options_;
  ParamStore& store_;
  std::vector<Moment> moments_;
};

}  // namespace tandem

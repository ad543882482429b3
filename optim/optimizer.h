// SGD, Adam and AdamW over a ParamStore: options, moments, and one fused step per region. Knows nothing of
// the model.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/config/fields.h"
#include "core/kernels/optimizer.h"
#include "core/kernels/step_state.h"
#include "core/params/param_store.h"

namespace tandem {

// Names: JOB.md, optimizer. Formulas: core/kernels/optimizer.h (PyTorch's).
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
  // `store` must outlive the optimizer. Moments start at zero. Throws Error{kConfig} by the rules of
  // fields().
  Optimizer(const OptimizerOptions& options, ParamStore& store);

  // Checks all gradients of the store in one pass (FP64 norm) and completes `state` for step(): event
  // kOverflow when a gradient, or the norm, is not finite (kForward stays), grad_norm = |gradient / scale|,
  // clip = min(1, max_norm / (grad_norm + 1e-6)). max_norm <= 0: no clipping. Call after prepare_step and
  // check_loss.
  void check_gradients(StepState& state, double max_norm) const;
  // One fused pass per region: unscale, clip, decay, moments, master, 16-bit copy; then tells the store.
  // Changes nothing unless state.event is kGood. The step counter of Adam's bias correction is state.applied
  // + 1, so LossScaler::update comes after. Throws Error{kNumeric} naming the parameter whose copy became
  // infinite.
  void step(StepState& state);

  // The moments as flat tensors in the regions' layout (ParamStore::view), for checkpoints: "momentum" (sgd
  // with momentum), "exp_avg" and "exp_avg_sq" (adam, adamw); one entry per moment and region, empty regions
  // left out.
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

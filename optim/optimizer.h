// SGD, Adam, AdamW and RMSProp over a ParamStore: options, parameter groups, moments, the running mean of the
// weights (EMA), and one fused step per region. Knows nothing of the model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/config/fields.h"
#include "core/kernels/optimizer.h"
#include "core/kernels/step_state.h"
#include "core/params/param_store.h"

namespace tandem {

// Parameters that `match` covers (pattern_covers) have their own decay and a factor on the learning rate.
struct OptimizerGroup {
  std::string match;
  std::optional<double> weight_decay;  // absent: the optimizer's
  double lr_factor = 1;
};
Fields fields(OptimizerGroup& options);

// ema += (1 - decay_t) (w - ema) after each applied step, in FP32, from the initial weights; decay_t = decay,
// with warmup min(decay, (1 + t) / (10 + t)) after t applied steps.
struct EmaOptions {
  double decay = 0.999;
  bool warmup = true;
};
Fields fields(EmaOptions& options);

// Names: JOB.md, optimizer. Formulas: core/kernels/optimizer.h (PyTorch's).
struct OptimizerOptions {
  OptimizerKind name = OptimizerKind::kAdamW;
  double lr = 1e-3, weight_decay = 0;
  double momentum = 0;  // sgd, rmsprop
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999;  // adam, adamw
  double eps = 1e-8;                  // adam, adamw, rmsprop
  double rho = 0.99;                  // rmsprop
  bool centered = false;
  std::vector<OptimizerGroup> groups{};  // a parameter takes the last group that covers it
  std::optional<EmaOptions> ema{};
};
Fields fields(OptimizerOptions& options);

class Optimizer {
 public:
  // `store` must outlive the optimizer. Moments start at zero, the running mean at the weights. Throws
  // Error{kConfig} by the rules of fields(), and for a group that covers no parameter, naming the nearest.
  Optimizer(const OptimizerOptions& options, ParamStore& store);

  // Checks all gradients of the store in one pass (FP64 norm) and completes `state` for step(): event
  // kOverflow when a gradient, or the norm, is not finite (kForward stays), grad_norm = |gradient / scale|,
  // clip = min(1, max_norm / (grad_norm + 1e-6)). max_norm <= 0: no clipping. Call after prepare_step and
  // check_loss.
  void check_gradients(StepState& state, double max_norm) const;
  // One fused pass per region: unscale, clip by norm, clip each value to +-clip_value (0: off), decay,
  // moments, master, running mean, 16-bit copy; then tells the store. Changes nothing unless state.event is
  // kGood. The step counter of Adam's bias correction is state.applied + 1, so LossScaler::update comes
  // after. Throws Error{kNumeric} naming the parameter whose copy became infinite.
  void step(StepState& state, double clip_value = 0);

  // The moments as flat tensors in the regions' layout (ParamStore::view), for checkpoints: "momentum" (sgd
  // with momentum), "exp_avg" and "exp_avg_sq" (adam, adamw), "square_avg", "grad_avg" (centered) and
  // "momentum" (rmsprop); one entry per moment and region, empty regions left out.
  struct Moment {
    std::string name;
    ParamRegion region;
    Tensor flat;
  };
  const std::vector<Moment>& moments() const { return moments_; }
  // The running mean of the masters, one per region that is not empty; none without options().ema.
  const std::vector<Moment>& ema() const { return ema_; }
  // The running mean becomes the present masters, as before the first step.
  void reset_ema();
  const OptimizerOptions& options() const { return options_; }

 private:
  std::vector<OptimizerPart> parts_of(ParamRegion region) const;

  OptimizerOptions options_;
  ParamStore& store_;
  std::vector<Moment> moments_, ema_;
};

}  // namespace tandem

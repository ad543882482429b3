// The training step (docs/design.md, "One training step") over a model, a criterion and batches. Knows
// nothing of files, YAML or run folders: train/run.h drives it for a job, users drive it for their own
// models.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor/context.h"
#include "data/loader.h"
#include "layers/module.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/checkpoint.h"
#include "train/numerics.h"

namespace tandem {

// What a batch knows of the truth.
struct Target {
  Target(Var the_label, Tensor the_weights = {})  // NOLINT: a label alone is a target
      : label(std::move(the_label)), weights(std::move(the_weights)) {}

  Var label;       // I32
  Tensor weights;  // F32 [N, 1, spatial], of each voxel in the loss; undefined where the data have none
};
// The FP32 scalar to be minimised.
using Criterion = std::function<Var(const Outputs& outputs, const Target& target)>;

struct TrainerOptions {
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  LossScaleOptions loss_scale;
  std::int64_t total_steps = 1;  // of the schedule
  std::int64_t accumulate = 1;   // micro-batches per step
  double clip_norm = 0;          // largest norm of the unscaled gradient; 0: off
  double clip_value = 0;         // bound of each unscaled gradient, after clip_norm; 0: off
  bool check_finite = true;      // false: apply every step, unless in FP16 or with a loss scale
  // Asked between the micro-batches of a step: true ends the step unfinished, with Error{kStopped}.
  std::function<bool()> stop_requested;
  // On every tape of a step, a replay for diagnosis included; for users' diagnosis and for tests.
  OpObserver observe_ops;
  GradientObserver observe_gradients;
};

// What one step did.
struct StepReport {
  std::int64_t step = 0;  // attempted steps, this one included
  double loss = 0;        // mean over the micro-batches
  StepEvent event = StepEvent::kGood;
  double scale = 1;      // used by this step
  double lr = 0;         // of this step, applied or not
  double grad_norm = 0;  // of the unscaled gradients; NaN unless event is kGood
  // Mode headroom: the largest |gradient| stored in 16 bits, scaled; 0 in other modes.
  double gradient_amax = 0;
  double data_wait_ms = 0, step_ms = 0;
  // Of a step that was not good: its first value that is not finite, in order of execution; see
  // find_nonfinite.
  std::optional<NonfiniteCause> cause;
  // Parts of step_ms as the host sees them; update: finite check, optimizer, scaler.
  double forward_ms = 0, backward_ms = 0, update_ms = 0;
};

// The model's buffers under their names in a checkpoint ("buffer/enc0.norm1.running_mean").
std::vector<NamedTensor> buffer_tensors(Module& model, const Device& device);

class Trainer {
 public:
  // Binds the model's parameters to a new ParamStore in context.compute and `precision`; the model must
  // outlive the trainer.
  Trainer(const Context& context, const Precision& precision, Module& model, Criterion criterion,
          const TrainerOptions& options);

  // One step over `accumulate` batches of `loader`. Throws Error{kNumeric} when the loss scaler gives up;
  // last_report() tells of that step too. A verdict in state() without an exception: the floor policy asks
  // for another compute dtype.
  StepReport step(Loader& loader);
  const StepReport& last_report() const { return report_; }

  const Context& context() const { return context_; }
  Module& model() { return model_; }
  ParamStore& params() { return params_; }
  const StepState& state() const { return state_; }

  // A validation's metric after `step`, for the schedule plateau; others do not look at it.
  void note_metric(std::int64_t step, double value, MetricMode mode);
  // Another metric is watched from now on; the learning rate stays as far lowered as it is.
  void forget_metric() { plateau_.watch = {}; }
  // The factor of plateau on the scheduled learning rate; 1 without.
  double rate_factor() const { return plateau_.factor; }
  // Runs `body` with the running mean of the weights in the place of the weights, if the optimizer keeps one;
  // the weights come back with the same bits, also when `body` throws.
  void with_mean_weights(const std::function<void()>& body);

  // Everything that the next step depends on: masters, moments, running mean, StepState, plateau. load()
  // checks names and shapes first and changes nothing if they do not fit (Error{kCheckpoint}); a running mean
  // that the checkpoint does not have starts at its weights.
  void save(CheckpointContent& content) const;
  void load(const CheckpointContent& content, const ScalerKnobs* saved_knobs = nullptr);

 private:
  double forward_backward(const Batch& batch, const ReplayRequest& request = {});
  ReplayRequest measurement();
  void apply();
  void observe(Tape& tape, const ReplayRequest& request) const;
  void check(const std::vector<Batch>& batches);
  void explain(const std::vector<Batch>& batches);
  ScalerDiagnosis diagnosis() const;

  Context context_;
  Module& model_;
  Criterion criterion_;
  TrainerOptions options_;
  ParamStore params_;
  Optimizer optimizer_;
  LossScaler scaler_;
  StepState state_;
  StepReport report_;  // of the step in work or the last one
  std::deque<std::string> recent_events_;
  PlateauState plateau_;
};

}  // namespace tandem

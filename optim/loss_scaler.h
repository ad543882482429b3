// Options of dynamic loss scaling and the object that owns its knobs. The state is StepState
// (core/kernels/step_state.h), the state machine kernels::scaler_update there; semantics: docs/numerics.md.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/config/fields.h"
#include "core/kernels/step_state.h"
#include "core/tensor/dtype.h"

namespace tandem {

// kHeadroom: dynamic, but grows only where the gradients of the last steps leave a factor of two
// (numerics.md).
enum class LossScaleMode { kOff, kStatic, kDynamic, kHeadroom };

// What happens after max_skips_at_min overflows at the smallest scale.
enum class FloorPolicy { kAbort, kHold, kSanitize, kFallbackFp32, kFallbackBf16 };

// Names and defaults: JOB.md, precision.loss_scale. mode absent: dynamic for fp16, off otherwise.
struct LossScaleOptions {
  std::optional<LossScaleMode> mode;
  double init = 65536, growth_factor = 2, backoff_factor = 0.5;
  std::int64_t growth_interval = 2000, hysteresis = 1;
  std::string hysteresis_refill = "on_good";  // on_good | on_growth
  double min = 1, max = 16777216;
  bool allow_non_pow2 = false;
  std::string on_forward_nonfinite = "keep";  // keep | backoff
  std::int64_t max_nonfinite_loss = 5, max_skips_at_min = 8, max_consecutive_skips = 40;
  FloorPolicy at_floor = FloorPolicy::kAbort;
};
// Rejects what amp.md 2.1 rejects: bool, not finite, <= 0, intervals that are no integers, factors and init
// that are no powers of two unless allowed, min > init, init > max; each with key, value and rule.
Fields fields(LossScaleOptions& options);

// What the first value of a step that is not finite is a sign of, as far as remedies depend on it.
enum class NonfiniteSource {
  kUnknown,   // no single value was found
  kData,      // the batch itself is not finite
  kInput,     // the image is finite, in 16 bits it is not
  kWeight,    // a weight itself is not finite
  kForward,   // a value of the forward pass that FP32 holds and 16 bits do not
  kBackward,  // a gradient that a smaller loss scale, or FP32, would hold
  kAnyFormat  // not finite in FP32 either
};

// What the abort text says beyond the state.
struct ScalerDiagnosis {
  std::string first_nonfinite;  // "backward, layer enc0.conv1, op conv, ..."
  NonfiniteSource source = NonfiniteSource::kUnknown;
  std::string fp32_layer;     // the layer that is known to stay finite in FP32; empty: none is known
  bool reads_input = false;   // the value's layer is the model's first: the image's range decides
  std::string recent_events;  // "... 38 overflow at 2, 39 overflow at 1"
  double base_lr = 0;         // optimizer.lr; 0: unknown
  double clip_norm = 0;       // train.clip_norm; 0: off
};

class LossScaler {
 public:
  // `compute` decides the mode where the options do not. Throws Error{kConfig} by the rules of fields().
  LossScaler(const LossScaleOptions& options, DType compute);

  LossScaleMode mode() const { return mode_; }
  const ScalerKnobs& knobs() const { return knobs_; }
  // Fresh state: scale init (1 when off), counters zero.
  StepState initial_state() const;

  // Takes values (scale, counters) from a checkpoint's state, changing what the present options do not allow:
  // a scale that is off, static or out of [min, max], a hysteresis above its limit, and a scale of 1 that was
  // saved by a run without scaling. The counters of a run that had given up start at 0: whoever resumes it
  // has changed something. `saved`: the knobs of the run that wrote the checkpoint, if known. Returns one
  // line per difference, to be printed.
  std::vector<std::string> resume(StepState& state, const ScalerKnobs* saved = nullptr) const;

  // Whether the 16-bit gradients of every step are to be measured into state.gradient_amax.
  bool measures_headroom() const { return knobs_.headroom != 0; }
  // Whether this step's overflow is to be applied with gradients made finite (at_floor: sanitize).
  bool sanitizes(const StepState& state) const;
  // Whether the verdict asks for another compute dtype (at_floor: fallback_*): update() does not throw then.
  bool falls_back(const StepState& state) const;

  // After the optimizer's pass of a step: kernels::scaler_update. Throws Error{kNumeric} with the abort text
  // (what, since when, where, the last events, up to three remedies with their line of YAML) when the verdict
  // says so and no policy of at_floor takes over; state is updated first. `diagnose` is called for an abort
  // only.
  void update(StepState& state, const std::function<ScalerDiagnosis()>& diagnose = {}) const;

 private:
  LossScaleOptions options_;
  DType compute_;
  LossScaleMode mode_;
  ScalerKnobs knobs_;
};

// Opens a step: latches the scale's inverse, sets lr, and clears event, clip, grad_norm, weight_overflow,
// sanitized and gradient_amax.
void prepare_step(StepState& state, double lr);
// Sets the event kForward when `loss` (the unscaled value of one micro-batch) is not finite.
void check_loss(StepState& state, double loss);

}  // namespace tandem

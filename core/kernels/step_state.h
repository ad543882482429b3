// The state of the training step that lives on the device, and the loss scaler's state machine as one
// function that any device runs (research: dynamic loss scaling; semantics in docs/numerics.md).
// Configuration is optim/loss_scaler.
#pragma once

#include <cstdint>

#include "core/base/host_device.h"

namespace tandem {

// What happened to a step: all finite and applied; a gradient was not finite; the loss was already not
// finite.
enum class StepEvent : std::int32_t { kGood = 0, kOverflow = 1, kForward = 2 };

// Why training must end, decided by the scaler.
enum class ScalerVerdict : std::int32_t {
  kContinue = 0,
  kAtFloor = 1,
  kNonfiniteLoss = 2,
  kConsecutiveSkips = 3
};

// Knobs of the scaler in the form that the update reads (names: JOB.md, precision.loss_scale).
struct ScalerKnobs {
  std::int32_t dynamic = 0;  // 0: off or static, the scale never moves
  float growth_factor = 2, backoff_factor = 0.5f, min = 1, max = 16777216;
  std::int32_t growth_interval = 2000, hysteresis = 1;
  std::int32_t refill_on_growth = 0;    // hysteresis_refill: on_good | on_growth
  std::int32_t backoff_on_forward = 0;  // on_forward_nonfinite: keep | backoff
  std::int32_t max_nonfinite_loss = 5, max_skips_at_min = 8, max_consecutive_skips = 40;
  // mode headroom: grow only if twice the peak of the 16-bit gradients leaves a factor of two; back off
  // without a skip where a gradient no longer does.
  std::int32_t headroom = 0;
  float largest = 65504;      // the largest finite number of the format
  std::int32_t sanitize = 0;  // at_floor: sanitize
};

// One per training run, in device memory, at a stable address; 64-bit counters last. Everything a checkpoint
// needs of the scaler is here.
struct StepState {
  // This step: written by prepare_step and by the check of loss and gradients.
  float scale = 65536;           // S, latched: nothing changes it inside a step
  float inverse = 1.0f / 65536;  // float(1 / double(S))
  float clip = 1;                // factor on unscaled gradients
  float lr = 0;                  // of this step if it is applied
  StepEvent event = StepEvent::kGood;
  std::int32_t weight_overflow = 0;  // set by the update when a 16-bit copy became infinite
  double grad_norm = 0;              // L2 norm of the unscaled gradients; only meaningful when event is kGood
  // The scaler.
  std::int32_t good_steps = 0, hysteresis_left = 1, consecutive_skips = 0, skips_at_min = 0,
               consecutive_bad_loss = 0;
  ScalerVerdict verdict = ScalerVerdict::kContinue;
  std::int64_t attempted = 0, applied = 0, skipped_overflow = 0, skipped_forward = 0;
  std::int64_t last_overflow_step = -1;
  // Of mode headroom. This step's largest |gradient| stored in 16 bits, scaled; of an overflow its magnitude
  // without rounding where that is known. Then, unscaled: the largest since the last decision about a growth,
  // and what is remembered from before, which fades by 2^-1/2 with each decision.
  float gradient_amax = 0;
  float interval_peak = 0, gradient_peak = 0;
  // Set when this step's gradients were made finite to be applied at the smallest scale.
  std::int32_t sanitized = 0;
  std::int32_t withheld_growths = 0;  // growths that were due without room for them
  std::int32_t early_backoffs = 0;    // good steps of mode headroom that lowered the scale
};

// inverse of `scale`, rounded once from double: scale 3 gives 0x3EAAAAAB.
TD_HD float inverse_scale(float scale) { return static_cast<float>(1.0 / static_cast<double>(scale)); }

// min(1, max_norm / (norm + 1e-6)); 1 when max_norm <= 0 (off).
TD_HD float clip_factor(double norm, double max_norm) {
  if (max_norm <= 0) return 1.0f;
  const double factor = max_norm / (norm + 1e-6);
  return factor < 1 ? static_cast<float>(factor) : 1.0f;
}

namespace kernels {

TD_HD void scaler_back_off(StepState& s, const ScalerKnobs& k) {
  s.hysteresis_left = s.hysteresis_left > 1 ? s.hysteresis_left - 1 : 0;
  if (s.hysteresis_left != 0) return;
  if (k.dynamic && s.scale > k.min) {
    const float lower = s.scale * k.backoff_factor;
    s.scale = lower > k.min ? lower : k.min;
  } else if (k.dynamic) {
    s.skips_at_min += 1;
  }
}

// Mode headroom: takes the step's largest gradient into the peak of the interval. An infinite one (a value
// that nobody measured without rounding) counts as the largest finite number.
TD_HD void note_peak(StepState& s, const ScalerKnobs& k) {
  const float amax = s.gradient_amax <= 3.4028234e38f ? s.gradient_amax : k.largest;
  const float unscaled = amax / s.scale;
  if (unscaled > s.interval_peak) s.interval_peak = unscaled;
}

// Mode headroom, a growth is due: whether twice the scale leaves a factor of two above all peaks that are
// remembered. Either way a new interval begins.
TD_HD bool has_headroom(StepState& s, const ScalerKnobs& k) {
  const float peak = s.interval_peak > s.gradient_peak ? s.interval_peak : s.gradient_peak;
  const bool room = peak * s.scale <= k.largest / 4;
  if (!room) s.withheld_growths += 1;
  const float faded = s.gradient_peak * 0.70710678f;
  s.gradient_peak = s.interval_peak > faded ? s.interval_peak : faded;
  s.interval_peak = 0;
  return room;
}

// Mode headroom: a good step with less than a factor of two left lowers the scale before a later one must be
// skipped.
TD_HD bool backs_off_early(const StepState& s, const ScalerKnobs& k) {
  return k.headroom && s.gradient_amax > k.largest / 2 && s.scale > k.min;
}

TD_HD void scaler_good(StepState& s, const ScalerKnobs& k) {
  s.applied += 1;
  s.consecutive_skips = s.consecutive_bad_loss = 0;
  if (s.sanitized) {  // applied, but no sign that the scale is right
    s.good_steps = 0;
    return;
  }
  s.skips_at_min = 0;
  s.good_steps += 1;
  if (!k.refill_on_growth) s.hysteresis_left = k.hysteresis;
  if (backs_off_early(s, k)) {
    const float lower = s.scale * k.backoff_factor;
    s.scale = lower > k.min ? lower : k.min;
    s.early_backoffs += 1;
    s.good_steps = 0;
    return;
  }
  if (s.good_steps < k.growth_interval) return;
  if (k.dynamic && (!k.headroom || has_headroom(s, k))) {
    const float higher = s.scale * k.growth_factor;
    s.scale = higher < k.max ? higher : k.max;
  }
  s.good_steps = 0;
  s.hysteresis_left = k.hysteresis;
}

// One update after the optimizer's pass, by s.event. Moves scale, inverse, counters and verdict; `attempted`
// counts from 1 at the first call. Order of the rules: amp.md 2.4.
TD_HD void scaler_update(StepState& s, const ScalerKnobs& k) {
  s.attempted += 1;
  if (k.headroom && s.event != StepEvent::kForward) note_peak(s, k);
  if (s.event == StepEvent::kGood) {
    scaler_good(s, k);
  } else {
    s.good_steps = 0;
    s.consecutive_skips += 1;
    if (s.event == StepEvent::kOverflow) {
      s.consecutive_bad_loss = 0;
      s.skipped_overflow += 1;
      s.last_overflow_step = s.attempted;
      scaler_back_off(s, k);
    } else {
      s.consecutive_bad_loss += 1;
      s.skipped_forward += 1;
      if (k.backoff_on_forward) scaler_back_off(s, k);
    }
  }
  s.verdict = ScalerVerdict::kContinue;
  if (s.skips_at_min >= k.max_skips_at_min && !k.sanitize)
    s.verdict = ScalerVerdict::kAtFloor;
  else if (s.consecutive_bad_loss >= k.max_nonfinite_loss)
    s.verdict = ScalerVerdict::kNonfiniteLoss;
  else if (s.consecutive_skips >= k.max_consecutive_skips)
    s.verdict = ScalerVerdict::kConsecutiveSkips;
  s.inverse = inverse_scale(s.scale);
}

}  // namespace kernels
}  // namespace tandem

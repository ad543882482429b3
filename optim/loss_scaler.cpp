// Options, resumption and abort texts of the loss scaler.
#include "optim/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/half.h"

namespace tandem {
namespace {

constexpr double kLargestScale = 0x1p126;  // S / 2 and 2 S stay normal floats
constexpr std::int64_t kLargestCount = std::numeric_limits<std::int32_t>::max();

bool is_power_of_two(double x) {
  int exponent = 0;
  return x > 0 && std::isfinite(x) && std::frexp(x, &exponent) == 0.5;
}

void apply_rules(const LossScaleOptions& o, ErrorList& errors) {
  if (o.min > o.init) errors.rule("min", fmt::format("got {}, expected at most init ({})", o.min, o.init));
  if (o.init > o.max) errors.rule("init", fmt::format("got {}, expected at most max ({})", o.init, o.max));
  if (o.allow_non_pow2) return;
  const std::pair<const char*, double> powers[] = {{"init", o.init},
                                                   {"growth_factor", o.growth_factor},
                                                   {"backoff_factor", o.backoff_factor},
                                                   {"min", o.min},
                                                   {"max", o.max}};
  for (const auto& [key, value] : powers)
    if (!is_power_of_two(value))
      errors.rule(key, fmt::format("got {}, expected a power of two", value),
                  "other values change the bits of gradients; allow_non_pow2: true permits them");
}

// Validates options that were set in code by the rules of a job file.
const LossScaleOptions& checked(const LossScaleOptions& options) {
  LossScaleOptions copy = options;
  const Fields description = fields(copy);
  const ConfigNode written = description.emit();
  ErrorList errors;
  const ErrorList::Scope scope(errors, "precision.loss_scale");
  parse_options(written, description, errors);
  errors.throw_if_any();
  return options;
}

ScalerKnobs knobs_of(const LossScaleOptions& o, LossScaleMode mode, DType compute) {
  const auto count = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  ScalerKnobs knobs;
  knobs.dynamic = mode == LossScaleMode::kDynamic || mode == LossScaleMode::kHeadroom;
  knobs.headroom = mode == LossScaleMode::kHeadroom;
  knobs.largest = compute == DType::kBF16 ? kBFloat16Max : kHalfMax;
  knobs.sanitize = o.at_floor == FloorPolicy::kSanitize;
  knobs.growth_factor = static_cast<float>(o.growth_factor);
  knobs.backoff_factor = static_cast<float>(o.backoff_factor);
  knobs.min = static_cast<float>(o.min);
  knobs.max = static_cast<float>(o.max);
  knobs.growth_interval = count(o.growth_interval);
  knobs.hysteresis = count(o.hysteresis);
  knobs.refill_on_growth = o.hysteresis_refill == "on_growth";
  knobs.backoff_on_forward = o.on_forward_nonfinite == "backoff";
  knobs.max_nonfinite_loss = count(o.max_nonfinite_loss);
  knobs.max_skips_at_min = count(o.at_floor == FloorPolicy::kHold ? kLargestCount : o.max_skips_at_min);
  knobs.max_consecutive_skips = count(o.max_consecutive_skips);
  return knobs;
}

std::string numbered(const std::vector<std::string>& remedies) {
  constexpr std::size_t kShown = 3;
  std::string text = "What helps, most likely first:";
  for (std::size_t i = 0; i < std::min(kShown, remedies.size()); ++i)
    text += fmt::format("\n  {}. {}", i + 1, remedies[i]);
  return text;
}

std::string lower_lr(const StepState& s, double base_lr) {
  const double now = s.lr > 0 ? s.lr : base_lr, base = base_lr > 0 ? base_lr : now;
  return fmt::format("a smaller learning rate (now {:.3g}):    optimizer.lr: {:.3g}", s.lr,
                     std::min(now, base) / 10);
}

std::string clipping(double clip_norm) {
  constexpr double kUsualNorm = 12;
  return fmt::format("{} of gradients:    train.clip_norm: {:.3g}",
                     clip_norm > 0 ? "stronger clipping" : "clipping",
                     clip_norm > 0 ? clip_norm / 10 : kUsualNorm);
}

constexpr const char* kNormalize =
    "images without extreme values:    data.normalize: [{channel: 0, kind: zscore}]";
constexpr const char* kCheckData = "the files, if they hold such values:    tandem data check JOB";
constexpr const char* kNoGamma = "augmentation without powers of voxels:    augment.gamma: null";
constexpr const char* kBf16 = "BF16, which has FP32's range:    precision.compute: bf16";
constexpr const char* kFp32 = "FP32 for all layers:    precision.compute: fp32";
constexpr const char* kEarlier = "a checkpoint whose weights are finite:    --resume RUN/step-N.h5";

// What moves the loss scale away from where gradients overflow.
std::vector<std::string> scale_remedies(const StepState& s, DType compute, LossScaleMode mode) {
  std::vector<std::string> list;
  const bool moves = mode == LossScaleMode::kDynamic || mode == LossScaleMode::kHeadroom;
  if (compute != DType::kF16 && s.scale > 1)
    list.push_back("no loss scale, which FP32's range does not need:    precision.loss_scale.mode: off");
  else if (compute == DType::kF16 && !moves)
    list.push_back("a scale that adapts:    precision.loss_scale.mode: dynamic");
  else if (moves && s.verdict == ScalerVerdict::kAtFloor && s.scale > 1)
    list.push_back("a scale that may fall further:    precision.loss_scale.min: 1");
  return list;
}

// Most likely first; only what can help against a value of this source.
std::vector<std::string> remedies_of(const StepState& s, DType compute, LossScaleMode mode,
                                     const ScalerDiagnosis& d) {
  const std::string lr = lower_lr(s, d.base_lr), clip = clipping(d.clip_norm);
  std::vector<std::string> list;
  switch (d.source) {
    case NonfiniteSource::kData:
      return {kCheckData, kNormalize, kNoGamma};
    case NonfiniteSource::kWeight:
      return {kEarlier, lr, clip};
    case NonfiniteSource::kAnyFormat:
      return {lr, clip, kNormalize};
    case NonfiniteSource::kInput:
      list = {kNormalize};
      break;
    case NonfiniteSource::kForward:
      if (!d.fp32_layer.empty())
        list.push_back(fmt::format("the layer that overflows in FP32:    precision.fp32_layers: [\"{}\"]",
                                   d.fp32_layer));
      if (d.reads_input) list.push_back(kNormalize);
      list.push_back(lr);
      break;
    case NonfiniteSource::kBackward:
    case NonfiniteSource::kUnknown:
      list = scale_remedies(s, compute, mode);
      list.push_back(lr);
  }
  if (compute == DType::kF16) list.push_back(kBf16);
  if (d.source == NonfiniteSource::kUnknown || d.source == NonfiniteSource::kBackward) list.push_back(clip);
  list.push_back(is_16_bit_float(compute) ? kFp32 : kNormalize);
  return list;
}

[[noreturn]] void abort_run(const StepState& s, DType compute, LossScaleMode mode, const ScalerDiagnosis& d) {
  std::string what;
  switch (s.verdict) {
    case ScalerVerdict::kAtFloor:
      what = fmt::format(
          "gradients overflow at the smallest loss scale: got {} in a row at scale {}, "
          "expected finite gradients",
          counted(s.skips_at_min, "such step"), s.scale);
      break;
    case ScalerVerdict::kNonfiniteLoss:
      what = fmt::format(
          "the loss is not finite: got NaN or inf {} in a row, expected a finite loss (the "
          "loss scale, {}, is not at fault: the forward pass does not use it)",
          counted(s.consecutive_bad_loss, "step"), s.scale);
      break;
    default:
      what = fmt::format(
          "{} in a row skipped: got non-finite gradients or losses, expected a step that "
          "can be applied (loss scale {})",
          counted(s.consecutive_skips, "step"), s.scale);
  }
  std::string text = fmt::format(
      "[loss scale] {}\n  since step {}, now step {}: {} applied, {} skipped by "
      "overflow, {} by the loss",
      what, s.attempted - s.consecutive_skips + 1, s.attempted, counted(s.applied, "step"),
      s.skipped_overflow, s.skipped_forward);
  if (!d.first_nonfinite.empty()) text += "\n  first not finite: " + d.first_nonfinite;
  if (!d.recent_events.empty()) text += "\n  last steps: " + d.recent_events;
  throw Error(ErrorKind::kNumeric, text + "\n", numbered(remedies_of(s, compute, mode, d)));
}

// "loss scale: WHAT is OLD in the checkpoint, NEW here" if they differ.
template <class T>
void compare(std::vector<std::string>& lines, std::string_view what, T old_value, T new_value) {
  if (old_value != new_value)
    lines.push_back(fmt::format("precision.loss_scale.{}: {} in the checkpoint, {} from the job file", what,
                                old_value, new_value));
}

std::vector<std::string> knob_differences(const ScalerKnobs& a, const ScalerKnobs& b) {
  std::vector<std::string> lines;
  const auto refill = [](const ScalerKnobs& k) { return k.refill_on_growth ? "on_growth" : "on_good"; };
  const auto forward = [](const ScalerKnobs& k) { return k.backoff_on_forward ? "backoff" : "keep"; };
  const auto dynamic = [](const ScalerKnobs& k) {
    return k.headroom ? "headroom" : k.dynamic ? "dynamic" : "static or off";
  };
  compare(lines, "mode", std::string(dynamic(a)), std::string(dynamic(b)));
  compare(lines, "growth_factor", a.growth_factor, b.growth_factor);
  compare(lines, "backoff_factor", a.backoff_factor, b.backoff_factor);
  compare(lines, "growth_interval", a.growth_interval, b.growth_interval);
  compare(lines, "hysteresis", a.hysteresis, b.hysteresis);
  compare(lines, "hysteresis_refill", std::string(refill(a)), std::string(refill(b)));
  compare(lines, "min", a.min, b.min);
  compare(lines, "max", a.max, b.max);
  compare(lines, "on_forward_nonfinite", std::string(forward(a)), std::string(forward(b)));
  compare(lines, "max_nonfinite_loss", a.max_nonfinite_loss, b.max_nonfinite_loss);
  compare(lines, "max_skips_at_min", a.max_skips_at_min, b.max_skips_at_min);
  compare(lines, "max_consecutive_skips", a.max_consecutive_skips, b.max_consecutive_skips);
  return lines;
}

}  // namespace

Fields fields(LossScaleOptions& o) {
  const NumberRange positive{.min = 0, .max = kLargestScale, .exclusive_min = true};
  const IntegerRange count{.min = 1, .max = kLargestCount};
  return Fields()
      .choice(
          "mode", o.mode,
          {{"off", LossScaleMode::kOff},
           {"static", LossScaleMode::kStatic},
           {"dynamic", LossScaleMode::kDynamic},
           {"headroom", LossScaleMode::kHeadroom}},
          "How the loss scale moves; headroom: dynamic, but grows only where the gradients leave a factor of "
          "two; null: dynamic for fp16, off otherwise")
      .number("init", o.init, positive, "First scale; the scale of a static one")
      .number("growth_factor", o.growth_factor, {.min = 1, .max = 65536, .exclusive_min = true},
              "Factor after growth_interval good steps in a row")
      .number("backoff_factor", o.backoff_factor,
              {.min = 0, .max = 1, .exclusive_min = true, .exclusive_max = true}, "Factor after an overflow")
      .integer("growth_interval", o.growth_interval, count, "Good steps in a row before the scale grows",
               "steps")
      .integer("hysteresis", o.hysteresis, count, "Overflows before the scale backs off")
      .choice("hysteresis_refill", o.hysteresis_refill, {"on_good", "on_growth"},
              "When the count of tolerated overflows starts afresh")
      .number("min", o.min, positive, "Smallest scale")
      .number("max", o.max, positive, "Largest scale")
      .flag("allow_non_pow2", o.allow_non_pow2, "Permit scales and factors that are no powers of two")
      .choice("on_forward_nonfinite", o.on_forward_nonfinite, {"keep", "backoff"},
              "What the scale does when the loss itself is not finite; backoff is what PyTorch does")
      .integer("max_nonfinite_loss", o.max_nonfinite_loss, count,
               "Steps in a row with a non-finite loss that end the run", "steps")
      .integer("max_skips_at_min", o.max_skips_at_min, count,
               "Overflows in a row at min before at_floor acts", "steps")
      .integer("max_consecutive_skips", o.max_consecutive_skips, count,
               "Skipped steps in a row, for any reason, that end the run", "steps")
      .choice("at_floor", o.at_floor,
              {{"abort", FloorPolicy::kAbort},
               {"hold", FloorPolicy::kHold},
               {"sanitize", FloorPolicy::kSanitize},
               {"fallback_fp32", FloorPolicy::kFallbackFp32},
               {"fallback_bf16", FloorPolicy::kFallbackBf16}},
              "What happens after max_skips_at_min: end; go on skipping; apply with NaN as 0 and infinities "
              "as the "
              "largest FP16 number; go on in FP32 or BF16")
      .check([&o](ErrorList& errors) { apply_rules(o, errors); },
             {"init", "min", "max", "growth_factor", "backoff_factor", "allow_non_pow2"});
}

LossScaler::LossScaler(const LossScaleOptions& options, DType compute)
    : options_(checked(options)),
      compute_(compute),
      mode_(options.mode.value_or(compute == DType::kF16 ? LossScaleMode::kDynamic : LossScaleMode::kOff)),
      knobs_(knobs_of(options, mode_, compute)) {}

StepState LossScaler::initial_state() const {
  StepState state;
  state.scale = mode_ == LossScaleMode::kOff ? 1.0f : static_cast<float>(options_.init);
  state.inverse = inverse_scale(state.scale);
  state.hysteresis_left = knobs_.hysteresis;
  return state;
}

std::vector<std::string> LossScaler::resume(StepState& state, const ScalerKnobs* saved) const {
  std::vector<std::string> lines;
  if (saved) lines = knob_differences(*saved, knobs_);
  const float initial = initial_state().scale;
  float scale = state.scale;
  const bool was_unscaled = saved && !saved->dynamic && state.scale == 1;
  if (!knobs_.dynamic || was_unscaled || !std::isfinite(scale))
    scale = initial;
  else
    scale = std::clamp(scale, knobs_.min, knobs_.max);
  if (scale != state.scale)
    lines.push_back(fmt::format("loss scale: {} in the checkpoint, {} here", state.scale, scale));
  state.scale = scale;
  state.inverse = inverse_scale(scale);
  state.hysteresis_left = std::clamp(state.hysteresis_left, 0, knobs_.hysteresis);
  if (state.verdict != ScalerVerdict::kContinue) {
    lines.push_back("the saved run had given up: its counters of skips in a row start at 0 again");
    state.verdict = ScalerVerdict::kContinue;
    state.consecutive_skips = state.skips_at_min = state.consecutive_bad_loss = 0;
  }
  return lines;
}

bool LossScaler::sanitizes(const StepState& state) const {
  return knobs_.sanitize && state.event == StepEvent::kOverflow &&
         state.skips_at_min >= knobs_.max_skips_at_min;
}

bool LossScaler::falls_back(const StepState& state) const {
  return state.verdict == ScalerVerdict::kAtFloor &&
         (options_.at_floor == FloorPolicy::kFallbackFp32 || options_.at_floor == FloorPolicy::kFallbackBf16);
}

void LossScaler::update(StepState& state, const std::function<ScalerDiagnosis()>& diagnose) const {
  kernels::scaler_update(state, knobs_);
  if (state.verdict == ScalerVerdict::kContinue || falls_back(state)) return;
  abort_run(state, compute_, mode_, diagnose ? diagnose() : ScalerDiagnosis());
}

void prepare_step(StepState& state, double lr) {
  state.inverse = inverse_scale(state.scale);
  state.lr = static_cast<float>(lr);
  state.clip = 1;
  state.event = StepEvent::kGood;
  state.grad_norm = 0;
  state.weight_overflow = 0;
  state.sanitized = 0;
  state.gradient_amax = 0;
}

void check_loss(StepState& state, double loss) {
  if (!std::isfinite(loss)) state.event = StepEvent::kForward;
}

}  // namespace tandem

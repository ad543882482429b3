// The optimizers' options, groups, moments and step.
#include "optim/optimizer.h"

#include <array>
#include <cmath>

#include "core/backends/backend.h"
#include "core/base/error.h"

namespace tandem {
namespace {

constexpr ParamRegion kRegions[] = {ParamRegion::kCast, ParamRegion::kKept};

// In the order of OptimizerArgs; empty: a moment that these options do not use.
std::array<std::string, 3> moment_names(const OptimizerOptions& o) {
  const std::string momentum = o.momentum > 0 ? "momentum" : "";
  if (o.name == OptimizerKind::kSgd) return {momentum, "", ""};
  if (o.name == OptimizerKind::kRmsProp) return {"square_avg", o.centered ? "grad_avg" : "", momentum};
  return {"exp_avg", "exp_avg_sq", ""};
}

// Validates options that were set in code by the rules of a job file.
const OptimizerOptions& checked(const OptimizerOptions& options) {
  OptimizerOptions copy = options;
  const Fields description = fields(copy);
  const ConfigNode written = description.emit();
  ErrorList errors;
  const ErrorList::Scope scope(errors, "optimizer");
  parse_options(written, description, errors);
  errors.throw_if_any();
  return options;
}

}  // namespace

Fields fields(OptimizerGroup& o) {
  return Fields()
      .text("match", o.match,
            "Name pattern of the parameters, as '*.bias' or 'head0'; the last match decides")
      .number("weight_decay", o.weight_decay, {.min = 0, .max = 1000}, "Their decay; null: the optimizer's")
      .number("lr_factor", o.lr_factor, {.min = 0, .max = 1000},
              "Factor on their learning rate; 0 freezes them")
      .required("match");
}

Fields fields(EmaOptions& o) {
  return Fields()
      .number("decay", o.decay, {.min = 0, .max = 1, .exclusive_max = true},
              "Part of the mean that a step keeps")
      .flag("warmup", o.warmup, "Begin with a decay of (1 + t) / (10 + t)");
}

Fields fields(OptimizerOptions& o) {
  const NumberRange beta{.min = 0, .max = 1, .exclusive_max = true};
  return Fields()
      .choice("name", o.name,
              {{"sgd", OptimizerKind::kSgd},
               {"adam", OptimizerKind::kAdam},
               {"adamw", OptimizerKind::kAdamW},
               {"rmsprop", OptimizerKind::kRmsProp}},
              "Update rule")
      .number("lr", o.lr, {.min = 0, .max = 1000, .exclusive_min = true}, "Learning rate before the schedule")
      .number("weight_decay", o.weight_decay, {.min = 0, .max = 1000},
              "Decay of all parameters: added to the gradient (sgd, adam, rmsprop), or decoupled (adamw)")
      .number("momentum", o.momentum, beta, "Momentum of sgd and rmsprop")
      .flag("nesterov", o.nesterov, "Nesterov's form of momentum")
      .number("beta1", o.beta1, beta, "Decay of the first moment")
      .number("beta2", o.beta2, beta, "Decay of the second moment")
      .number("eps", o.eps, {.min = 0, .max = 1, .exclusive_min = true},
              "Added to the root of the second moment, in FP32")
      .number("rho", o.rho, beta, "Decay of the mean of squares")
      .flag("centered", o.centered, "Divide by the root of the variance, not of the mean of squares")
      .list("groups", o.groups, "Parameters with a decay and a learning rate of their own")
      .group("ema", o.ema, "Running mean of the weights, used by validation, eval and predict; null: none")
      .only_for({"momentum"}, "name", {"sgd", "rmsprop"})
      .only_for({"nesterov"}, "name", {"sgd"})
      .only_for({"beta1", "beta2"}, "name", {"adam", "adamw"})
      .only_for({"eps"}, "name", {"adam", "adamw", "rmsprop"})
      .only_for({"rho", "centered"}, "name", {"rmsprop"})
      .check(
          [&o](ErrorList& errors) {
            if (o.name == OptimizerKind::kSgd && o.nesterov && o.momentum == 0)
              errors.rule("nesterov", "got true with momentum 0, expected a momentum above 0");
          },
          {"name", "nesterov", "momentum"});
}

Optimizer::Optimizer(const OptimizerOptions& options, ParamStore& store)
    : options_(checked(options)), store_(store) {
  std::vector<std::string> patterns, names;
  for (const OptimizerGroup& group : options_.groups) patterns.push_back(group.match);
  for (const ParamSegment& segment : store_.segments()) names.push_back(segment.name);
  require_pattern_matches(patterns, "optimizer.groups", names, "the name of a layer or parameter");
  for (const ParamRegion region : kRegions) {
    const Tensor& master = store_.region(region).master;
    if (master.numel() == 0) continue;
    const auto zeros = [&master] {
      return Tensor::zeros(master.shape(), master.dtype(), master.device(), MemoryCategory::kOptimizer);
    };
    for (const std::string& name : moment_names(options_))
      if (!name.empty()) moments_.push_back({name, region, zeros()});
    if (options_.ema) ema_.push_back({"ema", region, zeros()});
  }
  reset_ema();
}

void Optimizer::reset_ema() {
  for (const Moment& mean : ema_) {
    const Tensor& master = store_.region(mean.region).master;
    backend_of(store_.device()).map({.kernel = MapKernel::kCopy}, {&master, 1}, mean.flat);
  }
}

// One part per run of segments with the same constants; none without groups.
std::vector<OptimizerPart> Optimizer::parts_of(ParamRegion region) const {
  std::vector<OptimizerPart> parts;
  if (options_.groups.empty()) return parts;
  for (const ParamSegment& segment : store_.segments()) {
    if (segment.region != region) continue;
    OptimizerPart part{segment.offset + segment.size, options_.weight_decay, 1};
    for (const OptimizerGroup& group : options_.groups)
      if (pattern_covers(group.match, segment.name)) {
        part.weight_decay = group.weight_decay.value_or(options_.weight_decay);
        part.lr_factor = group.lr_factor;
      }
    const bool same = !parts.empty() && parts.back().weight_decay == part.weight_decay &&
                      parts.back().lr_factor == part.lr_factor;
    if (same)
      parts.back().end = part.end;
    else
      parts.push_back(part);
  }
  parts.back().end = store_.region(region).size;
  return parts;
}

void Optimizer::check_gradients(StepState& state, double max_norm) const {
  GradientCheck result;
  for (const ParamRegion region : kRegions)
    if (const FlatRegion& flat = store_.region(region); flat.size > 0)
      backend_of(store_.device()).gradient_check(flat.gradient, state, result);
  state.grad_norm = std::sqrt(result.sum_of_squares) / static_cast<double>(state.scale);
  const bool is_finite = result.nonfinite == 0 && std::isfinite(state.grad_norm);
  if (state.event != StepEvent::kForward) state.event = is_finite ? StepEvent::kGood : StepEvent::kOverflow;
  state.clip = state.event == StepEvent::kGood ? clip_factor(state.grad_norm, max_norm) : 1.0f;
}

void Optimizer::step(StepState& state, double clip_value) {
  if (state.event != StepEvent::kGood) return;
  if (state.applied == 0) reset_ema();  // whoever gave the weights may have come after the constructor
  const OptimizerConstants constants{.weight_decay = options_.weight_decay,
                                     .momentum = options_.momentum,
                                     .nesterov = options_.nesterov,
                                     .beta1 = options_.beta1,
                                     .beta2 = options_.beta2,
                                     .eps = options_.eps,
                                     .rho = options_.rho,
                                     .centered = options_.centered,
                                     .clip_value = clip_value,
                                     .ema_decay = options_.ema ? options_.ema->decay : 0,
                                     .ema_warmup = options_.ema && options_.ema->warmup};
  const std::array<std::string, 3> names = moment_names(options_);
  for (const ParamRegion region : kRegions) {
    const FlatRegion& flat = store_.region(region);
    if (flat.size == 0) continue;
    OptimizerArgs args{.kind = options_.name,
                       .constants = constants,
                       .parts = parts_of(region),
                       .master = flat.master,
                       .gradient = flat.gradient};
    if (flat.has_copy()) args.copy = flat.copy;
    for (const Moment& moment : moments_)
      if (moment.region == region)
        (moment.name == names[0]   ? args.moment1
         : moment.name == names[1] ? args.moment2
                                   : args.moment3) = moment.flat;
    for (const Moment& mean : ema_)
      if (mean.region == region) args.ema = mean.flat;
    backend_of(store_.device()).optimizer_step(args, state);
  }
  store_.mark_changed();
  if (state.weight_overflow) store_.check_copies();
}

}  // namespace tandem

// The optimizers' options, moments and step.
#include "optim/optimizer.h"

#include <cmath>

#include "core/backends/backend.h"
#include "core/base/error.h"

namespace tandem {
namespace {

constexpr ParamRegion kRegions[] = {ParamRegion::kCast, ParamRegion::kKept};

std::vector<std::string> moment_names(const OptimizerOptions& o) {
  if (o.name != OptimizerKind::kSgd) return {"exp_avg", "exp_avg_sq"};
  if (o.momentum > 0) return {"momentum"};
  return {};
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

Fields fields(OptimizerOptions& o) {
  const NumberRange beta{.min = 0, .max = 1, .exclusive_max = true};
  return Fields()
      .choice(
          "name", o.name,
          {{"sgd", OptimizerKind::kSgd}, {"adam", OptimizerKind::kAdam}, {"adamw", OptimizerKind::kAdamW}},
          "Update rule")
      .number("lr", o.lr, {.min = 0, .max = 1000, .exclusive_min = true}, "Learning rate before the schedule")
      .number("weight_decay", o.weight_decay, {.min = 0, .max = 1000},
              "Decay of all parameters: added to the gradient (sgd, adam), or decoupled (adamw)")
      .number("momentum", o.momentum, beta, "Momentum of sgd")
      .flag("nesterov", o.nesterov, "Nesterov's form of momentum")
      .number("beta1", o.beta1, beta, "Decay of the first moment")
      .number("beta2", o.beta2, beta, "Decay of the second moment")
      .number("eps", o.eps, {.min = 0, .max = 1, .exclusive_min = true},
              "Added to the root of the second moment, in FP32")
      .only_for({"momentum", "nesterov"}, "name", {"sgd"})
      .only_for({"beta1", "beta2", "eps"}, "name", {"adam", "adamw"})
      .check([&o](ErrorList& errors) {
        if (o.name == OptimizerKind::kSgd && o.nesterov && o.momentum == 0)
          errors.rule("nesterov", "got true with momentum 0, expected a momentum above 0");
      });
}

Optimizer::Optimizer(const OptimizerOptions& options, ParamStore& store)
    : options_(checked(options)), store_(store) {
  for (const ParamRegion region : kRegions) {
    const FlatRegion& flat = store_.region(region);
    if (flat.size == 0) continue;
    for (const std::string& name : moment_names(options_))
      moments_.push_back({name, region,
                          Tensor::zeros(flat.master.shape(), flat.master.dtype(), flat.master.device(),
                                        MemoryCategory::kOptimizer)});
  }
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

void Optimizer::step(StepState& state) {
  if (state.event != StepEvent::kGood) return;
  const OptimizerConstants constants{.weight_decay = options_.weight_decay,
                                     .momentum = options_.momentum,
                                     .nesterov = options_.nesterov,
                                     .beta1 = options_.beta1,
                                     .beta2 = options_.beta2,
                                     .eps = options_.eps};
  for (const ParamRegion region : kRegions) {
    const FlatRegion& flat = store_.region(region);
    if (flat.size == 0) continue;
    OptimizerArgs args{
        .kind = options_.name, .constants = constants, .master = flat.master, .gradient = flat.gradient};
    if (flat.has_copy()) args.copy = flat.copy;
    for (const Moment& moment : moments_)
      if (moment.region == region) (args.moment1.defined() ? args.moment2 : args.moment1) = moment.flat;
    backend_of(store_.device()).optimizer_step(args, state);
  }
  store_.mark_changed();
  if (state.weight_overflow) store_.check_copies();
}

}  // namespace tandem

// The gradient check and the fused update, in double on F64 buffers; only the copy is rounded.
#include <cmath>
#include <limits>

#include "core/backends/reference/reference_impl.h"
#include "core/base/error.h"

namespace tandem {
namespace {

// Stores w in the copy; whether a finite w became infinite.
bool store_copy(const Tensor& copy, std::int64_t i, double w) {
  double stored = 0;
  if (copy.dtype() == DType::kF16) {
    copy.data<Half>()[i] = to_half(static_cast<float>(w));
    stored = to_float(copy.data<Half>()[i]);
  } else {
    copy.data<BFloat16>()[i] = to_bfloat16(static_cast<float>(w));
    stored = to_float(copy.data<BFloat16>()[i]);
  }
  return std::isfinite(w) && !std::isfinite(stored);
}

}  // namespace

void ReferenceBackend::gradient_check(const Tensor& gradient, const StepState& state, GradientCheck& result) {
  const double* g = gradient.data<double>();
  const double largest = std::numeric_limits<float>::max();
  for (std::int64_t i = 0; i < gradient.numel(); ++i) {
    const bool overflows = state.scale < 1 && std::abs(g[i] * static_cast<double>(state.inverse)) > largest;
    if (!std::isfinite(g[i]) || overflows) ++result.nonfinite;
    result.sum_of_squares += g[i] * g[i];
  }
}

namespace {

// One element's update with the step factors of its part.
class Update {
 public:
  Update(const OptimizerArgs& args, const OptimizerPart& part, const StepState& state)
      : kind_(args.kind), centered_(args.constants.centered) {
    const OptimizerConstants c = kernels::part_constants(args.constants, part);
    const double lr = static_cast<double>(state.lr) * part.lr_factor;
    sgd_ = kernels::sgd_step<double>(c, lr);
    adam_ = kernels::adam_step<double>(c, lr, state.applied + 1, kind_ == OptimizerKind::kAdamW);
    rms_ = kernels::rmsprop_step<double>(c, lr);
  }

  double operator()(double w, double g, double& m1, double& m2, double& m3) const {
    const auto root = [](double x) { return std::sqrt(x); };
    if (kind_ == OptimizerKind::kSgd) return kernels::sgd_update(w, g, m1, sgd_);
    if (kind_ != OptimizerKind::kRmsProp) return kernels::adam_update(w, g, m1, m2, adam_, root);
    const bool momentum = rms_.momentum != 0;
    if (centered_)
      return momentum ? kernels::rmsprop_update<true, true>(w, g, m1, m2, m3, rms_, root)
                      : kernels::rmsprop_update<true, false>(w, g, m1, m2, m3, rms_, root);
    return momentum ? kernels::rmsprop_update<false, true>(w, g, m1, m2, m3, rms_, root)
                    : kernels::rmsprop_update<false, false>(w, g, m1, m2, m3, rms_, root);
  }

 private:
  OptimizerKind kind_;
  bool centered_;
  kernels::SgdStep<double> sgd_;
  kernels::AdamStep<double> adam_;
  kernels::RmsPropStep<double> rms_;
};

}  // namespace

void ReferenceBackend::optimizer_step(const OptimizerArgs& args, StepState& state) {
  if (state.event != StepEvent::kGood) return;
  const double factor = static_cast<double>(state.inverse) * static_cast<double>(state.clip);
  const double rate = kernels::ema_rate(args.constants, state.applied);
  std::vector<OptimizerPart> parts = args.parts;
  if (parts.empty()) parts.push_back({args.master.numel(), args.constants.weight_decay, 1});
  double unused = 0;
  const auto element = [&unused](const Tensor& tensor, std::int64_t i) -> double& {
    return tensor.defined() ? tensor.data<double>()[i] : unused;
  };
  std::int64_t i = 0;
  for (const OptimizerPart& part : parts) {
    const Update update(args, part, state);
    for (; i < part.end; ++i) {
      double& w = element(args.master, i);
      const double g = kernels::clip_to(element(args.gradient, i) * factor, args.constants.clip_value);
      w = update(w, g, element(args.moment1, i), element(args.moment2, i), element(args.moment3, i));
      if (args.copy.defined() && store_copy(args.copy, i, w)) state.weight_overflow = 1;
      if (args.ema.defined()) element(args.ema, i) += rate * (w - element(args.ema, i));
    }
  }
}

}  // namespace tandem

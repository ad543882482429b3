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

void ReferenceBackend::optimizer_step(const OptimizerArgs& args, StepState& state) {
  if (state.event != StepEvent::kGood) return;
  const double factor = static_cast<double>(state.inverse) * static_cast<double>(state.clip);
  const auto sgd = kernels::sgd_step<double>(args.constants, state.lr);
  const auto adam = kernels::adam_step<double>(args.constants, state.lr, state.applied + 1,
                                               args.kind == OptimizerKind::kAdamW);
  double unused = 0;
  for (std::int64_t i = 0; i < args.master.numel(); ++i) {
    double& w = args.master.data<double>()[i];
    double& m = args.moment1.defined() ? args.moment1.data<double>()[i] : unused;
    double& v = args.moment2.defined() ? args.moment2.data<double>()[i] : unused;
    const double g = args.gradient.data<double>()[i] * factor;
    if (args.kind == OptimizerKind::kSgd)
      w = kernels::sgd_update(w, g, m, sgd);
    else
      w = kernels::adam_update(w, g, m, v, adam, [](double x) { return std::sqrt(x); });
    if (args.copy.defined() && store_copy(args.copy, i, w)) state.weight_overflow = 1;
  }
}

}  // namespace tandem

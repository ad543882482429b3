// The gradient check and the optimizer's pass of the CUDA backend. StepState is the host's.
#include "core/backends/common/optimizer_parts.h"
#include "core/backends/cuda/cuda_backend.h"
#include "core/backends/cuda/cuda_launch.h"

namespace tandem::cuda {
namespace {

// Calls body.operator()<Kind>().
template <class Body>
void with_kind(const OptimizerArgs& args, const Body& body) {
  const bool momentum = args.constants.momentum != 0;
  if (args.kind == OptimizerKind::kSgd)
    return momentum ? body.template operator()<SgdMomentum>() : body.template operator()<SgdPlain>();
  if (args.kind != OptimizerKind::kRmsProp) return body.template operator()<AdamBoth>();
  if (args.constants.centered)
    return momentum ? body.template operator()<RmsProp<true, true>>()
                    : body.template operator()<RmsProp<true, false>>();
  return momentum ? body.template operator()<RmsProp<false, true>>()
                  : body.template operator()<RmsProp<false, false>>();
}

}  // namespace

void CudaBackend::gradient_check(const Tensor& gradient, const StepState& state, GradientCheck& result) {
  const std::int64_t n = gradient.numel();
  if (n == 0) return;
  const std::int64_t blocks = ceil_divide(n, kCheckElements);
  const Scratch<double> partial(device_, 2 * blocks), total(device_, 2);
  launch(api_, blocks,
         GradientSums{n, gradient.data<float>(), state.scale < 1 ? state.inverse : 1.0f, partial.data()});
  launch(api_, 2, SumChunks{2, blocks, partial.data(), total.data(), nullptr, nullptr, 2});
  const std::vector<double> sums = total.to_host();
  result.nonfinite += static_cast<std::int64_t>(sums[0]);
  result.sum_of_squares += sums[1];
}

void CudaBackend::optimizer_step(const OptimizerArgs& args, StepState& state) {
  if (state.event != StepEvent::kGood || args.master.numel() == 0) return;
  const Scratch<UpdatePart> parts(device_, optimizer_parts<UpdatePart>(args, state));
  const Scratch<std::int32_t> overflow(device_, std::vector<std::int32_t>{0});
  with_kind(args, [&]<class Kind>() {
    OptimizerUpdate<Kind> loop{};
    loop.count = args.master.numel();
    loop.parts = parts.data();
    loop.part_count = static_cast<std::int32_t>(std::max<std::size_t>(args.parts.size(), 1));
    loop.inverse = state.scale == 1 ? 1.0f : state.inverse;
    loop.clip = state.clip;
    loop.clip_value = static_cast<float>(args.constants.clip_value);
    loop.ema_rate = static_cast<float>(kernels::ema_rate(args.constants, state.applied));
    loop.gradient = args.gradient.data<float>();
    loop.master = args.master.data<float>();
    loop.moments[0] = data_or_null<float>(args.moment1);
    loop.moments[1] = data_or_null<float>(args.moment2);
    loop.moments[2] = data_or_null<float>(args.moment3);
    if (args.copy.defined()) {
      loop.copy = args.copy.raw();
      loop.copy_dtype = args.copy.dtype();
    }
    loop.ema = data_or_null<float>(args.ema);
    loop.weight_overflow = overflow.data();
    launch(api_, loop);
  });
  if (args.copy.defined() && overflow.to_host()[0] != 0) state.weight_overflow = 1;
}

}  // namespace tandem::cuda

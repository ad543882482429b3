// One parameter's update by each optimizer, in FP32: scalar maths, the loop over the flat buffers is a
// backend's. The caller has unscaled and clipped the gradient; m and v are the moments in place.
#pragma once

#include "core/kernels/host_device.h"

namespace tandem {

enum class OptimizerKind { kSgd, kAdam, kAdamW };

// Hyper-parameters of one step, in double: 1 - beta2 formed from a float 0.999 would be off by 1e-5. lr comes
// from StepState.
struct OptimizerConstants {
  double weight_decay = 0;
  double momentum = 0;  // sgd
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // adam(w)
};

namespace kernels {

// PyTorch's SGD (Sutskever et al. 2013 for Nesterov's form):
//   g += wd w;  v = momentum v + g;  w -= lr (nesterov ? g + momentum v : v)
// A zero start of v gives PyTorch's first step (v = g).
template <class R>
TD_HD R sgd_update(R w, R g, R& v, R lr, const OptimizerConstants& c) {
  g += static_cast<R>(c.weight_decay) * w;
  if (c.momentum == 0) return w - lr * g;
  v = static_cast<R>(c.momentum) * v + g;
  return w - lr * (c.nesterov ? g + static_cast<R>(c.momentum) * v : v);
}

// Adam (Kingma & Ba 2015), AdamW with `decoupled` (Loshchilov & Hutter 2019), in PyTorch's order of
// operations:
//   adamw: w *= 1 - lr wd   adam: g += wd w
//   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  w -= lr/correction1 * m / (sqrt(v) / sqrt(correction2) +
//   eps)
// step_size = lr / (1 - b1^t), root_correction2 = sqrt(1 - b2^t), t = applied steps + 1; eps acts in FP32.
template <class R, class Sqrt>
TD_HD R adam_update(R w, R g, R& m, R& v, R lr, R step_size, R root_correction2, bool decoupled,
                    const OptimizerConstants& c, Sqrt square_root) {
  if (decoupled)
    w *= R(1) - lr * static_cast<R>(c.weight_decay);
  else
    g += static_cast<R>(c.weight_decay) * w;
  m += static_cast<R>(1 - c.beta1) * (g - m);
  v = static_cast<R>(c.beta2) * v + static_cast<R>(1 - c.beta2) * g * g;
  return w - step_size * m / (square_root(v) / root_correction2 + static_cast<R>(c.eps));
}

}  // namespace kernels
}  // namespace tandem

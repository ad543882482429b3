// One parameter's update by each optimizer, in FP32: scalar maths, the loop over the flat buffers is a
// backend's. The caller has unscaled and clipped the gradient; v and m are the moments in place.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/host_device.h"

namespace tandem {

enum class OptimizerKind { kSgd, kAdam, kAdamW, kRmsProp };

// Hyper-parameters of one step, in double: 1 - beta2 formed from a float 0.999 would be off by 1e-5. lr comes
// from StepState.
struct OptimizerConstants {
  double weight_decay = 0;
  double momentum = 0;                // sgd, rmsprop
  bool nesterov = false;              // sgd
  double beta1 = 0.9, beta2 = 0.999;  // adam(w)
  double eps = 1e-8;                  // adam(w), rmsprop
  double rho = 0.99;                  // rmsprop
  bool centered = false;              // rmsprop
  double clip_value = 0;              // bound of each gradient after unscaling and norm clipping; 0: off
  double ema_decay = 0;               // of the running mean of the weights
  bool ema_warmup = false;
};

// Where a part of a region ends, and what is its own: lr of the step times lr_factor, and its decay.
struct OptimizerPart {
  std::int64_t end = 0;  // elements from the region's start
  double weight_decay = 0, lr_factor = 1;
};

namespace kernels {

// The factors of one SGD step, each rounded once from double.
template <class R>
struct SgdStep {
  R lr, weight_decay, momentum;
  bool nesterov;
};

template <class R>
TD_HD SgdStep<R> sgd_step(const OptimizerConstants& c, double lr) {
  return {static_cast<R>(lr), static_cast<R>(c.weight_decay), static_cast<R>(c.momentum), c.nesterov};
}

// PyTorch's SGD (Sutskever et al. 2013 for Nesterov's form):
//   g += wd w;  v = momentum v + g;  w -= lr (nesterov ? g + momentum v : v)
// A zero start of v gives PyTorch's first step (v = g). Without momentum v is neither read nor written.
template <class R>
TD_HD R sgd_update(R w, R g, R& v, const SgdStep<R>& s) {
  g += s.weight_decay * w;
  if (s.momentum == 0) return w - s.lr * g;
  v = s.momentum * v + g;
  return w - s.lr * (s.nesterov ? g + s.momentum * v : v);
}

// The factors of one Adam step, each rounded once from double.
template <class R>
struct AdamStep {
  R keep;          // adamw: 1 - lr wd; adam: 1
  R weight_decay;  // adam: wd; adamw: 0
  R one_minus_beta1, beta2, one_minus_beta2;
  R step_size;         // lr / (1 - beta1^t)
  R root_correction2;  // sqrt(1 - beta2^t)
  R eps;
};

// t: this step's number among the applied ones, from 1 (StepState.applied + 1).
template <class R>
TD_HD AdamStep<R> adam_step(const OptimizerConstants& c, double lr, std::int64_t t, bool decoupled) {
  const double steps = static_cast<double>(t);
  AdamStep<R> s;
  s.keep = static_cast<R>(decoupled ? 1 - lr * c.weight_decay : 1.0);
  s.weight_decay = static_cast<R>(decoupled ? 0.0 : c.weight_decay);
  s.one_minus_beta1 = static_cast<R>(1 - c.beta1);
  s.beta2 = static_cast<R>(c.beta2);
  s.one_minus_beta2 = static_cast<R>(1 - c.beta2);
  s.step_size = static_cast<R>(lr / (1 - ::pow(c.beta1, steps)));
  s.root_correction2 = static_cast<R>(::sqrt(1 - ::pow(c.beta2, steps)));
  s.eps = static_cast<R>(c.eps);
  return s;
}

// Adam (Kingma & Ba 2015), AdamW with decoupled decay (Loshchilov & Hutter 2019), in PyTorch's order of
// operations:
//   adamw: w *= 1 - lr wd   adam: g += wd w
//   m += (1-b1) (g - m);  v = b2 v + (1-b2) g^2;  w -= step_size m / (sqrt(v) / root_correction2 + eps)
// eps acts in FP32.
template <class R, class Sqrt>
TD_HD R adam_update(R w, R g, R& m, R& v, const AdamStep<R>& s, Sqrt square_root) {
  w *= s.keep;
  g += s.weight_decay * w;
  m += s.one_minus_beta1 * (g - m);
  v = s.beta2 * v + s.one_minus_beta2 * g * g;
  return w - s.step_size * m / (square_root(v) / s.root_correction2 + s.eps);
}

// The factors of one RMSProp step, each rounded once from double.
template <class R>
struct RmsPropStep {
  R lr, weight_decay, momentum;
  R rho, one_minus_rho, eps;
};

template <class R>
TD_HD RmsPropStep<R> rmsprop_step(const OptimizerConstants& c, double lr) {
  return {static_cast<R>(lr),    static_cast<R>(c.weight_decay), static_cast<R>(c.momentum),
          static_cast<R>(c.rho), static_cast<R>(1 - c.rho),      static_cast<R>(c.eps)};
}

// RMSProp (Tieleman & Hinton 2012; centered: Graves 2013) as PyTorch's:
//   g += wd w;  v = rho v + (1-rho) g^2;  centered: a += (1-rho) (g - a)
//   d = g / (sqrt(v - a^2) + eps);  with momentum: b = momentum b + d, w -= lr b;  else w -= lr d
// a and b are touched only where they are used; v - a^2 is kept from below 0.
template <bool kCentered, bool kMomentum, class R, class Sqrt>
TD_HD R rmsprop_update(R w, R g, R& v, R& a, R& b, const RmsPropStep<R>& s, Sqrt square_root) {
  g += s.weight_decay * w;
  v = s.rho * v + s.one_minus_rho * g * g;
  R spread = v;
  if constexpr (kCentered) {
    a += s.one_minus_rho * (g - a);
    spread = v - a * a;
    spread = spread < R(0) ? R(0) : spread;
  }
  const R d = g / (square_root(spread) + s.eps);
  if constexpr (!kMomentum) return w - s.lr * d;
  b = s.momentum * b + d;
  return w - s.lr * b;
}

// The constants of one part of a region.
TD_HD OptimizerConstants part_constants(OptimizerConstants c, const OptimizerPart& part) {
  c.weight_decay = part.weight_decay;
  return c;
}

// g within [-bound, bound]; bound 0: as it is. NaN stays NaN.
template <class R>
TD_HD R clip_to(R g, R bound) {
  const R low = g < -bound ? -bound : g;
  const R clipped = low > bound ? bound : low;
  return bound > R(0) ? clipped : g;
}

// Weight of the new value in the running mean of the weights after `applied` earlier steps: 1 - decay; with
// warm-up the decay starts at (1 + t) / (10 + t).
TD_HD double ema_rate(const OptimizerConstants& c, std::int64_t applied) {
  const double t = static_cast<double>(applied), start = (1 + t) / (10 + t);
  return 1 - (c.ema_warmup && start < c.ema_decay ? start : c.ema_decay);
}

}  // namespace kernels
}  // namespace tandem

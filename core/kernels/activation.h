// Activations of two pieces (ReLU and its kin) and their derivatives: scalar maths only, written once for
// every backend, computed in R (float; double in the reference). Smooth ones: smooth_activation.h; table.h
// lists all.
//
// FGrad is the gradient of F: inputs dy and x, the activation's argument.
#pragma once

#include "core/kernels/elementwise.h"
#include "core/kernels/math.h"

namespace tandem::kernels {

// y = max(x, 0); NaN stays NaN
struct Relu {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams&) {
    return x < R(0) ? R(0) : x;
  }
};

// dx = dy where x > 0, else 0
struct ReluGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R dy, R x, const MapParams&) {
    return x <= R(0) ? R(0) : dy;
  }
};

// y = x where x >= 0, else a x; NaN stays NaN
struct LeakyRelu {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams& p) {
    return x < R(0) ? static_cast<R>(p.a) * x : x;
  }
};

// dx = dy where x > 0, else a dy
struct LeakyReluGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R dy, R x, const MapParams& p) {
    return x <= R(0) ? static_cast<R>(p.a) * dy : dy;
  }
};

// y = x where x >= 0, else a x with a learned slope a (He et al. 2015)
struct Prelu {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R x, R a, const MapParams&) {
    return x < R(0) ? a * x : x;
  }
};

// dx = dy where x > 0, else a dy      inputs: dy, x, a
struct PreluGrad {
  static constexpr int kArity = 3;
  template <class R>
  static TD_HD R apply(R dy, R x, R a, const MapParams&) {
    return x <= R(0) ? a * dy : dy;
  }
};

// y = min(x, 0): what the gradient of a learned slope is summed of; NaN stays NaN
struct NegativePart {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams&) {
    return x > R(0) ? R(0) : x;
  }
};

// y = x where x > 0, else a (e^x - 1)      (Clevert et al. 2016)
struct Elu {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams& p) {
    return x > R(0) ? x : static_cast<R>(p.a) * expm1(x);
  }
};

// dx = dy where x > 0, else a e^x dy
struct EluGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R dy, R x, const MapParams& p) {
    return x > R(0) ? dy : dy * (static_cast<R>(p.a) * exp(x));
  }
};

}  // namespace tandem::kernels

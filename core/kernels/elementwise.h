// Elementwise functors that only copy, scale and combine: scalar maths, written once for every backend,
// computed in R (float; double in the reference). Activations: activation.h; loops: the backends'.
#pragma once

#include "core/base/host_device.h"

namespace tandem::kernels {

// Two constants of a functor; what they mean is said at the functor.
struct MapParams {
  double a = 0, b = 0;
};

// y = x
struct Copy {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams&) {
    return x;
  }
};

// y = a x
struct Scale {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams& p) {
    return static_cast<R>(p.a) * x;
  }
};

// The gradient of y = x, for the table of activations: dx = dy      inputs: dy, x
struct CopyGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R dy, R, const MapParams&) {
    return dy;
  }
};

// z = a x + b y
struct Blend {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R x, R y, const MapParams& p) {
    return static_cast<R>(p.a) * x + static_cast<R>(p.b) * y;
  }
};

// z = x + y
struct Add {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R x, R y, const MapParams&) {
    return x + y;
  }
};

// z = x y
struct Mul {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R x, R y, const MapParams&) {
    return x * y;
  }
};

}  // namespace tandem::kernels

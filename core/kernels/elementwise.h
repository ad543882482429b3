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

// (x - y)^2
struct SquaredError {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R x, R y, const MapParams&) {
    const R d = x - y;
    return d * d;
  }
};

// 2 (x - y)
struct SquaredErrorGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R x, R y, const MapParams&) {
    return R(2) * (x - y);
  }
};

// |x - y|
struct AbsoluteError {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R x, R y, const MapParams&) {
    const R d = x - y;
    return d < R(0) ? -d : d;
  }
};

// sign(x - y), 0 where they are equal; NaN stays NaN
struct AbsoluteErrorGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R x, R y, const MapParams&) {
    const R d = x - y;
    return d > R(0) ? R(1) : d < R(0) ? R(-1) : d;
  }
};

// d = |x - y|: d^2 / (2 a) where d < a, else d - a/2      (Huber's, over a)
struct SmoothError {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R x, R y, const MapParams& p) {
    const R a = static_cast<R>(p.a), d = x < y ? y - x : x - y;
    return d < a ? R(0.5) * d * d / a : d - R(0.5) * a;
  }
};

// (x - y) / a, within [-1, 1]
struct SmoothErrorGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R x, R y, const MapParams& p) {
    const R d = (x - y) / static_cast<R>(p.a);
    const R low = d < R(-1) ? R(-1) : d;
    return low > R(1) ? R(1) : low;
  }
};

}  // namespace tandem::kernels

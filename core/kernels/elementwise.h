// Elementwise functors and their derivatives: scalar maths only, written once for every backend, computed in
// R (float; double in the reference). The loops around them belong to the backends; table.h lists them.
#pragma once

#include "core/kernels/host_device.h"

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

// y = max(x, 0); NaN stays NaN
struct Relu {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams&) {
    return x < R(0) ? R(0) : x;
  }
};

// dx = dy where x > 0, else 0      inputs: dy, x
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

// dx = dy where x > 0, else a dy      inputs: dy, x
struct LeakyReluGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R dy, R x, const MapParams& p) {
    return x <= R(0) ? static_cast<R>(p.a) * dy : dy;
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

// Smooth activations and their derivatives: scalar maths only, written once for every backend, computed in R
// (float; double in the reference). ReLU and its kin: activation.h; table.h lists all.
//
// FGrad is the gradient of F: inputs dy and x, the activation's argument. x is saved and not y: 16 bits of y
// have lost 1 - y. GELU's erf form has the absolute accuracy of 1 + erf in its negative tail, as PyTorch's.
#pragma once

#include "core/kernels/elementwise.h"
#include "core/kernels/math.h"

namespace tandem::kernels {

// 1 / (1 + e^-x) without overflow or cancellation on either side.
template <class R>
TD_HD R logistic(R x) {
  const R e = exp(x < R(0) ? x : -x);
  return (x < R(0) ? e : R(1)) / (R(1) + e);
}

// Its derivative e^-|x| / (1 + e^-|x|)^2.
template <class R>
TD_HD R logistic_slope(R x) {
  const R e = exp(x < R(0) ? x : -x), sum = R(1) + e;
  return e / (sum * sum);
}

// y = 1 / (1 + e^-x)
struct Sigmoid {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams&) {
    return logistic(x);
  }
};

// dx = dy y (1 - y)
struct SigmoidGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R dy, R x, const MapParams&) {
    return dy * logistic_slope(x);
  }
};

// y = tanh(x)
struct Tanh {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams&) {
    return tanh(x);
  }
};

// dx = dy (1 - tanh(x)^2)
struct TanhGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R dy, R x, const MapParams&) {
    return dy * (R(4) * logistic_slope(R(2) * x));
  }
};

// y = log(1 + e^x)
struct Softplus {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams&) {
    return (x < R(0) ? R(0) : x) + log1p(exp(x < R(0) ? x : -x));
  }
};

// dx = dy / (1 + e^-x)
struct SoftplusGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R dy, R x, const MapParams&) {
    return dy * logistic(x);
  }
};

// y = x / (1 + e^-x)      (Elfwing et al. 2018)
struct Silu {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams&) {
    return x * logistic(x);
  }
};

// dx = dy (s + x s (1 - s)), s = 1 / (1 + e^-x)
struct SiluGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R dy, R x, const MapParams&) {
    return dy * (logistic(x) + x * logistic_slope(x));
  }
};

// y = x Phi(x), Phi the normal distribution      (Hendrycks and Gimpel 2016)
struct Gelu {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams&) {
    constexpr R kRootHalf = R(0.70710678118654752440);
    return R(0.5) * x * (R(1) + erf(x * kRootHalf));
  }
};

// dx = dy (Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi))
struct GeluGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R dy, R x, const MapParams&) {
    constexpr R kRootHalf = R(0.70710678118654752440), kDensity = R(0.39894228040143267794);
    const R share = R(0.5) * (R(1) + erf(x * kRootHalf));
    return dy * (share + x * (kDensity * exp(R(-0.5) * x * x)));
  }
};

// What GELU's tanh form has in place of sqrt(2) erf^-1: sqrt(2 / pi) (x + 0.044715 x^3).
template <class R>
TD_HD R gelu_argument(R x) {
  return R(0.79788456080286535588) * (x + R(0.044715) * x * x * x);
}

// y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
struct GeluTanh {
  static constexpr int kArity = 1;
  template <class R>
  static TD_HD R apply(R x, const MapParams&) {
    return x * logistic(R(2) * gelu_argument(x));  // (1 + tanh(u)) / 2
  }
};

// Its gradient. Beyond +-10 the slope of the tanh is 0 and its argument may be infinite.
struct GeluTanhGrad {
  static constexpr int kArity = 2;
  template <class R>
  static TD_HD R apply(R dy, R x, const MapParams&) {
    const R near_x = x > R(10) ? R(10) : x < R(-10) ? R(-10) : x;
    const R u = R(2) * gelu_argument(near_x);
    const R du = R(1.59576912160573071176) * (R(1) + R(0.134145) * near_x * near_x);
    return dy * (logistic(u) + near_x * logistic_slope(u) * du);
  }
};

}  // namespace tandem::kernels

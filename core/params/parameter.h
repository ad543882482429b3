// One learnable tensor of a module: name, shape, initialiser, and after binding its views into the
// ParamStore.
#pragma once

#include <cstdint>
#include <string>

#include "core/autograd/tape.h"
#include "core/tensor/tensor.h"

namespace tandem {

// cast: weights of conv and linear, kept as FP32 master plus a copy in the compute dtype. kept: scale, shift
// and bias, always FP32 (amp.md 3.2).
enum class ParamRegion { kCast, kKept };

struct Initializer {
  enum class Kind {
    kZeros,
    kOnes,
    kKaimingNormal,   // std = sqrt(2 / (1 + a^2) / fan_in)          (He et al. 2015)
    kKaimingUniform,  // bound = sqrt(6 / (1 + a^2) / fan_in)
    kUniform,         // bound = a
    kConstant,        // a
  };
  Kind kind = Kind::kZeros;
  double a = 0;  // negative slope of the activation that follows, the bound, or the value
};

class Parameter {
 public:
  Parameter() = default;
  // fan_in of a weight [K, C, taps] is C * taps (PyTorch's rule, for transposed convolution too).
  Parameter(const Shape& shape, ParamRegion region, Initializer initializer)
      : shape_(shape), region_(region), initializer_(initializer) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const Shape& shape() const { return shape_; }
  ParamRegion region() const { return region_; }
  const Initializer& initializer() const { return initializer_; }

  bool is_bound() const { return value_.defined(); }
  // The compute copy (cast region) or the master itself.
  const Tensor& value() const { return value_; }
  const Tensor& master() const { return master_; }
  const Tensor& gradient() const { return gradient_; }

  // The parameter as a leaf of `tape`: value(), or master() on a tape that computes in FP32 (the same network
  // without 16-bit rounding, for diagnosis). Its gradient is added to gradient(). Throws Error{kInternal}
  // when not bound.
  Var on(Tape& tape) const;

 private:
  friend class ParamStore;
  Shape shape_;
  ParamRegion region_ = ParamRegion::kKept;
  Initializer initializer_;
  Tensor value_, master_, gradient_;
};

}  // namespace tandem

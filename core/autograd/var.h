// A Var is a tensor, its gradient and its place on a tape: the only type that passes between ops and layers.
// It is a cheap handle; copies share everything. What can be done with it is in core/ops.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/tensor/tensor.h"

namespace tandem {

class Tape;

class Var {
 public:
  Var() = default;  // undefined

  bool defined() const { return state_ != nullptr; }
  const Tensor& value() const;
  const Shape& shape() const;
  DType dtype() const;
  Tape& tape() const;
  // Whether backward computes a gradient for it: it is a leaf made by Tape::variable or parameter, or depends
  // on one.
  bool requires_grad() const;

  // The gradient: of a leaf after backward; undefined before and for non-leaves once used.
  const Tensor& grad() const;

  // The same Var without its value: what a backward closure captures that only accumulates, so that the value
  // is freed when nothing else needs it. Undefined for an undefined Var.
  Var gradient_only() const;
  // For backward closures. Adds `gradient` (shape and dtype of value(); of a leaf any float dtype) to this
  // Var's gradient; the first one is kept without a copy. No-op unless requires_grad().
  void accumulate(const Tensor& gradient) const;
  // For backward closures of parameters: the FP32 (F64) tensor of value()'s shape to which the closure adds.
  // Made and zeroed on first use for leaves without a given gradient buffer. Leaves only.
  Tensor gradient_sink() const;
  // For backward closures of weights and biases, which may be any Var: calls add(sink) with an FP32 (F64)
  // tensor to add to. Of a leaf it is gradient_sink(); else a zeroed one, then rounded to the value's dtype
  // and accumulated. No-op unless requires_grad().
  void add_to_gradient(const std::function<void(const Tensor& sink)>& add) const;

 private:
  friend class Tape;
  struct State;
  Var(Tensor value, std::shared_ptr<State> state);

  Tensor value_;
  std::shared_ptr<State> state_;  // all but the value: shared with the tape, which keeps no values alive
};

}  // namespace tandem

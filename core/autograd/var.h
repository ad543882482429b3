// A Var is a tensor, its gradient and its place on a tape: the only type that passes between ops and layers.
// It is a cheap handle; copies share everything. What can be done with it is in core/ops.
#pragma once

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
  const Shape& shape() const { return value().shape(); }
  DType dtype() const { return value().dtype(); }
  Tape& tape() const;
  // Whether backward computes a gradient for it: it is a leaf made by Tape::variable or parameter, or depends
  // on one.
  bool requires_grad() const;

  // The gradient: of a leaf after backward; undefined before and for non-leaves once used.
  const Tensor& grad() const;

  // For backward closures. Adds `gradient` (shape of value()) to this Var's gradient; the first one is kept
  // without a copy. No-op unless requires_grad().
  void accumulate(const Tensor& gradient) const;
  // For backward closures of parameters: the FP32 (F64) tensor of value()'s shape to which the closure adds.
  // Made and zeroed on first use for leaves without a given gradient buffer.
  Tensor gradient_sink() const;

 private:
  friend class Tape;
  struct State;
  explicit Var(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace tandem

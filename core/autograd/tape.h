// The tape: records a closure per op during forward and runs them in reverse. It carries the context, so ops
// need no globals; one tape serves one forward and at most one backward pass.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/autograd/var.h"
#include "core/backends/backend.h"
#include "core/tensor/context.h"

namespace tandem {

// Receives the gradient of the op's output and adds to its inputs' (Var::accumulate, Var::gradient_sink).
// Captures what it needs by value; what it captures is freed as soon as it has run.
using BackwardClosure = std::function<void(const Tensor& output_gradient)>;

// Sees every op's result as it is recorded: the op's name, the module path, the value.
using OpObserver = std::function<void(std::string_view op, const std::string& module, const Tensor& value)>;

// A gradient as backward makes it, in order of execution.
struct GradientEvent {
  std::string_view op;        // whose backward closure made it
  const std::string& module;  // of that op
  // What it is added to: the value of an op or constant, or a leaf (parameter, variable). Of a leaf,
  // `gradient` is the whole accumulated gradient.
  bool is_leaf = false;
  const Tensor& gradient;
};
using GradientObserver = std::function<void(const GradientEvent& event)>;

class Tape {
 public:
  // With record = false no closure is kept and no Var requires a gradient (evaluation).
  explicit Tape(const Context& context, bool record = true);
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  const Context& context() const { return context_; }
  Backend& backend() const { return *backend_; }
  bool recording() const { return recording_; }
  // 0, 1, 2, ...: tells the ops of this tape apart that draw random numbers.
  std::uint64_t next_random_op() { return random_ops_++; }

  // A value without gradient. All values live on the context's device: Error{kDevice} else.
  Var constant(Tensor value);
  // A leaf whose gradient (accumulation_dtype of the value) is made by backward; for tests and user code.
  Var variable(Tensor value);
  // A leaf whose gradient is added to `gradient` (a view into a ParamStore's flat buffer).
  Var parameter(Tensor value, Tensor gradient);

  // The result of an op: `value`, and how its gradient flows to `inputs`. `op` is a static name for messages.
  Var record(std::string_view op, Tensor value, std::initializer_list<Var> inputs, BackwardClosure backward);
  Var record(std::string_view op, Tensor value, std::span<const Var> inputs, BackwardClosure backward);

  // Runs the closures in reverse from `loss` (one element) with d loss = `seed` in FP32 (F64): loss values
  // are never scaled themselves. Throws Error{kShape} for a loss of more than one element or of a 16-bit
  // dtype.
  void backward(const Var& loss, double seed = 1.0);

  // Module paths of the ops that follow, for errors in backward ("enc0.conv1"); managed by Module.
  void enter_module(std::string_view name);
  void leave_module();
  // For summaries and diagnosis; recording or not.
  void observe(OpObserver observer) { observer_ = std::move(observer); }
  // Sees each gradient before it is used or added to another, the sums too, and those of leaves when the
  // closure that adds to them has run; not the loss's own seed.
  void observe_gradients(GradientObserver observer) { gradient_observer_ = std::move(observer); }

 private:
  struct Node {
    std::string_view op;
    std::string module;
    std::shared_ptr<Var::State> output;
    BackwardClosure backward;
  };

  friend class Var;
  Var make(Tensor value, bool requires_grad, Tensor gradient);
  void report_gradient(const Tensor& gradient, bool is_leaf) const;
  std::string module() const;  // "enc0.conv1"

  Context context_;
  Backend* backend_;
  bool recording_;
  std::uint64_t random_ops_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::string> module_path_;
  OpObserver observer_;
  GradientObserver gradient_observer_;
  const Node* running_ = nullptr;       // whose closure runs
  std::vector<Tensor> leaf_gradients_;  // that it has taken to add to; complete when it ends
};

}  // namespace tandem

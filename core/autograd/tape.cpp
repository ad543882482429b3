// Recording and the reverse walk.
#include "core/autograd/tape.h"

#include <algorithm>

#include "core/base/error.h"

namespace tandem {

struct Var::State {
  Shape shape;
  DType dtype = DType::kF32;
  Tensor gradient;
  Tape* tape = nullptr;
  bool requires_grad = false;
  bool is_leaf = false;
};

Var::Var(Tensor value, std::shared_ptr<State> state) : value_(std::move(value)), state_(std::move(state)) {}

const Tensor& Var::value() const {
  check_internal(value_.defined(), "value of a Var that has none");
  return value_;
}

const Shape& Var::shape() const {
  check_internal(defined(), "shape of an undefined Var");
  return state_->shape;
}

DType Var::dtype() const {
  check_internal(defined(), "dtype of an undefined Var");
  return state_->dtype;
}

Tape& Var::tape() const {
  check_internal(defined(), "tape of an undefined Var");
  return *state_->tape;
}

bool Var::requires_grad() const { return defined() && state_->requires_grad; }

const Tensor& Var::grad() const {
  check_internal(defined(), "gradient of an undefined Var");
  return state_->gradient;
}

Var Var::gradient_only() const { return {{}, state_}; }

void Var::accumulate(const Tensor& gradient) const {
  if (!requires_grad()) return;
  check_internal(gradient.shape() == shape(), "a gradient of another shape than its value");
  check_internal(state_->is_leaf || gradient.dtype() == dtype(),
                 "a gradient of another dtype than its value");
  if (state_->is_leaf) {
    const Tensor sink = gradient_sink();
    tape().backend().map({.kernel = MapKernel::kCopy, .accumulate = true}, {{gradient}}, sink);
  } else if (!state_->gradient.defined()) {
    tape().report_gradient(gradient, false);
    state_->gradient = gradient;
  } else {
    // The kept tensor may be shared with another Var's gradient (add passes one tensor to both), so the sum
    // is a new one.
    tape().report_gradient(gradient, false);
    const Tensor sum(shape(), state_->gradient.dtype(), gradient.device());
    const std::array<Tensor, 2> inputs{state_->gradient, gradient};
    tape().backend().map({.kernel = MapKernel::kAdd}, inputs, sum);
    tape().report_gradient(sum, false);
    state_->gradient = sum;
  }
}

Tensor Var::gradient_sink() const {
  check_internal(requires_grad() && state_->is_leaf, "a gradient sink of a Var that is no leaf");
  if (!state_->gradient.defined())
    state_->gradient = Tensor::zeros(shape(), accumulation_dtype(dtype()), tape().context().device,
                                     MemoryCategory::kGradients);
  if (tape().gradient_observer_) tape().leaf_gradients_.push_back(state_->gradient);
  return state_->gradient;
}

void Var::add_to_gradient(const std::function<void(const Tensor& sink)>& add) const {
  if (!requires_grad()) return;
  if (state_->is_leaf) return add(gradient_sink());
  const Device& device = tape().context().device;
  const Tensor sum =
      Tensor::zeros(shape(), accumulation_dtype(dtype()), device, MemoryCategory::kActivations);
  add(sum);
  if (sum.dtype() == dtype()) return accumulate(sum);
  const Tensor rounded(shape(), dtype(), device);
  tape().backend().map({.kernel = MapKernel::kCopy}, {{sum}}, rounded);
  accumulate(rounded);
}

Tape::Tape(const Context& context, bool record)
    : context_(context), backend_(&backend_of(context.device)), recording_(record) {}

Var Tape::make(Tensor value, bool requires_grad, Tensor gradient) {
  check_internal(value.defined(), "a Var of an undefined tensor");
  if (value.device() != context_.device)
    throw Error(ErrorKind::kDevice,
                fmt::format("[tape] a value on another device: got {} on {}, expected {}", to_string(value),
                            name(value.device()), name(context_.device)),
                "Use Tensor::to_device.");
  auto state = std::make_shared<Var::State>();
  state->shape = value.shape();
  state->dtype = value.dtype();
  state->gradient = std::move(gradient);
  state->tape = this;
  state->requires_grad = requires_grad && recording_;
  return Var(std::move(value), std::move(state));
}

Var Tape::constant(Tensor value) { return make(std::move(value), false, {}); }

Var Tape::variable(Tensor value) { return parameter(std::move(value), {}); }

Var Tape::parameter(Tensor value, Tensor gradient) {
  check_internal(!gradient.defined() || (gradient.shape() == value.shape() &&
                                         gradient.dtype() == accumulation_dtype(value.dtype())),
                 "a gradient buffer of another shape or dtype than its parameter's");
  Var leaf = make(std::move(value), true, std::move(gradient));
  leaf.state_->is_leaf = true;
  return leaf;
}

Var Tape::record(std::string_view op, Tensor value, std::initializer_list<Var> inputs,
                 BackwardClosure backward) {
  return record(op, std::move(value), std::span(inputs.begin(), inputs.size()), std::move(backward));
}

Var Tape::record(std::string_view op, Tensor value, std::span<const Var> inputs, BackwardClosure backward) {
  const bool needed =
      recording_ && std::ranges::any_of(inputs, [](const Var& v) { return v.requires_grad(); });
  if (observer_) observer_(op, module(), value);
  Var output = make(std::move(value), needed, {});
  if (needed) nodes_.push_back({op, module(), output.state_, std::move(backward)});
  return output;
}

std::string Tape::module() const {
  std::string path;
  for (const std::string& part : module_path_) path += (path.empty() ? "" : ".") + part;
  return path;
}

void Tape::backward(const Var& loss, double seed) {
  if (loss.value().numel() != 1)
    fail(ErrorKind::kShape, "[backward] the loss is not a scalar: got {}, expected one element",
         to_string(loss.value()));
  if (is_16_bit_float(loss.dtype()))
    throw Error(
        ErrorKind::kShape,
        fmt::format("[backward] the loss has a 16-bit dtype: got {}, expected F32", name(loss.dtype())),
        "Compute the loss in F32: a loss scale of 65536 is not a 16-bit number.");
  check_internal(loss.requires_grad(), "backward of a loss that depends on no variable");
  check_internal(loss.state_->is_leaf || !nodes_.empty(), "a second backward pass on one tape");
  const std::array<double, 1> seed_value{seed};
  loss.accumulate(Tensor::from_values(loss.shape(), seed_value, loss.dtype(), context_.device));
  while (!nodes_.empty()) {
    const Node node = std::move(nodes_.back());
    nodes_.pop_back();
    if (!node.output->gradient.defined()) continue;  // does not reach the loss
    const Tensor gradient = std::move(node.output->gradient);
    node.output->gradient = {};
    try {
      running_ = &node;
      node.backward(gradient);
      for (const Tensor& leaf : leaf_gradients_) report_gradient(leaf, true);
      leaf_gradients_.clear();
      running_ = nullptr;
    } catch (Error& error) {
      error.prefix_module(node.module);
      throw;
    }
  }
}

void Tape::report_gradient(const Tensor& gradient, bool is_leaf) const {
  if (!gradient_observer_ || running_ == nullptr) return;  // no node runs: the seed of backward
  gradient_observer_(
      {.op = running_->op, .module = running_->module, .is_leaf = is_leaf, .gradient = gradient});
}

void Tape::enter_module(std::string_view name) { module_path_.emplace_back(name); }

void Tape::leave_module() { module_path_.pop_back(); }

}  // namespace tandem

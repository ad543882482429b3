// Module: named parameters, buffers and children, and a forward function. Knows nothing of the trainer.
// Layers and models derive from it; so do users' own models.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/autograd/tape.h"
#include "core/kernels/step_state.h"
#include "core/params/param_store.h"
#include "layers/buffer.h"

namespace tandem {

// What a forward pass gives: the main output first, deep-supervision outputs (coarser) after. Converts from
// and to the main Var, so layers with one output read as functions.
struct Outputs {
  Outputs(Var main_output) : main(std::move(main_output)) {}  // NOLINT: implicit on purpose
  Outputs(Var main_output, std::vector<Var> auxiliary_outputs)
      : main(std::move(main_output)), auxiliary(std::move(auxiliary_outputs)) {}
  operator const Var&() const { return main; }  // NOLINT: implicit on purpose

  Var main;
  std::vector<Var> auxiliary;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;  // children are registered by address
  Module& operator=(const Module&) = delete;

  // forward() with this module's name on the path of errors ("enc0.conv1"), in forward and in backward. The
  // root has no name. Throws Error{kInternal} for parameters that no ParamStore has bound.
  Outputs operator()(const Var& x);

  // All parameters of this module and its children in registration order, with dotted names: what ParamStore
  // takes.
  std::vector<NamedParameter> parameters();
  // All buffers, named and ordered as parameters().
  std::vector<NamedBuffer> buffers();
  // Settles what forward passes left pending in this module and its children: kept if state.event is kGood,
  // dropped else. The trainer calls it once per step.
  void commit(const StepState& state);

 protected:
  virtual Outputs forward(const Var& x) = 0;
  // This module's own part of commit().
  virtual void settle(bool) {}

  // Registers a member. `name` is not empty, has no dot and is unique in this module (Error{kInternal} else);
  // the member must live as long as the module.
  void add(std::string name, Module& child);
  void add(std::string name, Parameter& parameter);
  void add(std::string name, Buffer& buffer);

 private:
  struct Entry {
    std::string name;
    Module* child = nullptr;  // one of the three
    Parameter* parameter = nullptr;
    Buffer* buffer = nullptr;
  };

  void add(Entry entry);
  // Calls visit(dotted name, entry) for every parameter and buffer below.
  void visit(const std::string& prefix,
             const std::function<void(const std::string& name, const Entry& entry)>& visitor) const;

  std::string name_;
  std::vector<Entry> entries_;
};

}  // namespace tandem

// Registration of members and the path of names on a tape and in errors.
#include "layers/module.h"

#include <algorithm>

#include "core/base/error.h"

namespace tandem {
namespace {

// A module's name on the tape while its forward runs.
class ModuleScope {
 public:
  ModuleScope(Tape& tape, std::string_view name) : tape_(name.empty() ? nullptr : &tape) {
    if (tape_) tape_->enter_module(name);
  }
  ~ModuleScope() {
    if (tape_) tape_->leave_module();
  }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  Tape* tape_;
};

}  // namespace

Outputs Module::operator()(const Var& x) {
  const ModuleScope scope(x.tape(), name_);
  try {
    return forward(x);
  } catch (Error& error) {
    error.prefix_module(name_);
    throw;
  }
}

std::vector<NamedParameter> Module::parameters() {
  std::vector<NamedParameter> all;
  visit("", [&](const std::string& name, const Entry& entry) {
    if (entry.parameter) all.push_back({name, entry.parameter});
  });
  return all;
}

std::vector<NamedBuffer> Module::buffers() {
  std::vector<NamedBuffer> all;
  visit("", [&](const std::string& name, const Entry& entry) {
    if (entry.buffer) all.push_back({name, entry.buffer});
  });
  return all;
}

void Module::visit(const std::string& prefix,
                   const std::function<void(const std::string& name, const Entry& entry)>& visitor) const {
  for (const Entry& entry : entries_) {
    if (entry.child)
      entry.child->visit(prefix + entry.name + ".", visitor);
    else
      visitor(prefix + entry.name, entry);
  }
}

void Module::commit(const StepState& state) {
  settle(state.event == StepEvent::kGood);
  for (const Entry& entry : entries_)
    if (entry.child) entry.child->commit(state);
}

void Module::add(Entry entry) {
  check_internal(!entry.name.empty() && entry.name.find('.') == std::string::npos,
                 "a member name that is empty or has a dot: '" + entry.name + "'");
  check_internal(std::ranges::find(entries_, entry.name, &Entry::name) == entries_.end(),
                 "two members named '" + entry.name + "' in one module");
  entries_.push_back(std::move(entry));
}

void Module::add(std::string name, Module& child) {
  child.name_ = name;
  add(Entry{std::move(name), &child});
}

void Module::add(std::string name, Parameter& parameter) { add(Entry{std::move(name), nullptr, &parameter}); }

void Module::add(std::string name, Buffer& buffer) { add(Entry{.name = std::move(name), .buffer = &buffer}); }

}  // namespace tandem

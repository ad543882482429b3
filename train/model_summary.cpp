// Walks over a model with an observer on the tape.
#include "train/model_summary.h"

#include <map>
#include <set>
#include <string_view>

#include "core/autograd/tape.h"
#include "train/run_report.h"

namespace tandem {
namespace {

// Multiply-accumulates of one forward op with the weight `w`: each output position of a convolution or matmul
// uses the whole weight, of a transposed convolution with kernel = stride one tap of it.
double macs_of(std::string_view op, const Tensor& output, const Shape& weight) {
  const double positions = static_cast<double>(output.rows());
  if (op == "conv_transpose") return positions * static_cast<double>(weight[0] * weight[1]);
  return positions * static_cast<double>(weight.numel());
}

class Walker {
 public:
  Walker(Module& model, const Context& context, const Shape& input)
      : model_(model), context_(context), image_(Tensor::zeros(input, context.compute, context.device)) {
    for (const NamedParameter& p : model.parameters()) {
      by_module_[p.name.substr(0, p.name.rfind('.'))].push_back(p);
      ++parameters_;
    }
  }

  ModelSummary walk() {
    pass(false);
    result_.memory = memory_text(context_.device);
    if (listed_.size() < parameters_) pass(true);
    for (const auto& [module, parameters] : by_module_) add_unused(module, parameters);
    return std::move(result_);
  }

 private:
  // A row for each op; of a pass in training only of modules that the prediction does without.
  void pass(bool training) {
    context_.training = training;
    std::set<std::string> known;
    if (training)
      for (const SummaryRow& row : result_.rows) known.insert(row.module);
    Tape tape(context_, false);
    tape.observe([&](std::string_view op, const std::string& module, const Tensor& value) {
      if (training && (known.contains(module) || !by_module_.contains(module))) return;
      add(op, module, value);
      result_.rows.back().training_only = training;
    });
    model_(tape.constant(image_));
  }

  void add(std::string_view op, const std::string& module, const Tensor& value) {
    SummaryRow row{module, std::string(op), to_string(value)};
    if (const auto it = by_module_.find(module); it != by_module_.end())
      for (const NamedParameter& p : it->second) {
        if (listed_.insert(p.name).second) row.parameters += p.parameter->shape().numel();
        if (p.parameter->shape().rank() > 1) row.macs = macs_of(op, value, p.parameter->shape());
      }
    result_.rows.push_back(std::move(row));
  }

  void add_unused(const std::string& module, const std::vector<NamedParameter>& parameters) {
    SummaryRow row{module, "not used", "by this job"};
    for (const NamedParameter& p : parameters)
      if (!listed_.contains(p.name)) row.parameters += p.parameter->shape().numel();
    if (row.parameters > 0) result_.rows.push_back(std::move(row));
  }

  Module& model_;
  Context context_;
  Tensor image_;
  std::map<std::string, std::vector<NamedParameter>> by_module_;
  std::size_t parameters_ = 0;
  std::set<std::string> listed_;  // names of parameters that stand in a row
  ModelSummary result_;
};

}  // namespace

ModelSummary summarise_model(Module& model, Context context, const Shape& input) {
  return Walker(model, context, input).walk();
}

}  // namespace tandem

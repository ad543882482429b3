// A few parameters in a store with an optimizer and a scaler, stepped by gradients that a test gives.
#pragma once

#include <deque>
#include <vector>

#include "core/backends/backend.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"

namespace tandem::tests {

struct GivenParameter {
  std::string name;
  Shape shape;
  ParamRegion region;
  std::vector<double> values;
};

class Training {
 public:
  struct Options {
    Device device = kCpuDevice;
    DType compute = DType::kF32;
    OptimizerOptions optimizer;
    LossScaleOptions loss_scale;
    double max_norm = 0, clip_value = 0;
    std::int64_t channel_multiple = 0;
  };

  Training(const Options& options, const std::vector<GivenParameter>& given)
      : options_(options),
        store_(named(given), {.device = options.device, .compute = options.compute}, {options.compute},
               options.channel_multiple),
        optimizer_(options.optimizer, store_),
        scaler_(options.loss_scale, options.compute),
        state_(scaler_.initial_state()) {
    for (std::size_t i = 0; i < given.size(); ++i) write(parameters_[i].master(), given[i].values);
    store_.refresh_copies();
  }

  // One step with the true gradients `gradients` (times the scale in the buffers) at learning rate `lr`.
  void step(const std::vector<std::vector<double>>& gradients, double lr, double loss = 0) {
    prepare_step(state_, lr);
    check_loss(state_, loss);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      std::vector<double> scaled = gradients[i];
      for (double& g : scaled) g *= state_.scale;
      write(parameters_[i].gradient(), scaled);
    }
    finish();
  }
  // The same with gradients that are already in the buffers; prepare_step has been called.
  void finish() {
    optimizer_.check_gradients(state_, options_.max_norm);
    optimizer_.step(state_, options_.clip_value);
    scaler_.update(state_);
  }

  Parameter& parameter(std::size_t i) { return parameters_[i]; }
  std::vector<double> master(std::size_t i) const { return parameters_[i].master().to_values(); }
  std::vector<double> moment(std::size_t parameter, std::size_t which) const {
    const ParamSegment& segment = store_.segments()[parameter];
    for (const Optimizer::Moment& moment : optimizer_.moments())
      if (moment.region == segment.region && which-- == 0)
        return ParamStore::view(segment, moment.flat).to_values();
    return {};
  }
  ParamStore& store() { return store_; }
  Optimizer& optimizer() { return optimizer_; }
  const LossScaler& scaler() const { return scaler_; }
  StepState& state() { return state_; }

  static void write(const Tensor& target, const std::vector<double>& values) {
    const Tensor source = Tensor::from_values(target.shape(), values, target.dtype(), target.device());
    backend_of(target.device()).map({.kernel = MapKernel::kCopy}, {&source, 1}, target);
  }

 private:
  std::vector<NamedParameter> named(const std::vector<GivenParameter>& given) {
    std::vector<NamedParameter> all;
    for (const GivenParameter& g : given) {
      parameters_.emplace_back(g.shape, g.region, Initializer{});
      all.push_back({g.name, &parameters_.back()});
    }
    return all;
  }

  Options options_;
  std::deque<Parameter> parameters_;  // before the store that binds them
  ParamStore store_;
  Optimizer optimizer_;
  LossScaler scaler_;
  StepState state_;
};

// One scalar weight in the cast region.
inline std::vector<GivenParameter> scalar(double value) {
  return {{"w", Shape{1, 1}, ParamRegion::kCast, {value}}};
}

}  // namespace tandem::tests

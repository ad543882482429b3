// The training step, and what a checkpoint needs of it.
#include "train/trainer.h"

#include <chrono>
#include <limits>

#include "core/base/log.h"
#include "core/ops/elementwise.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

Trainer::Trainer(const Context& context, const Precision& precision, Module& model, Criterion criterion,
                 const TrainerOptions& options)
    : context_(context),
      model_(model),
      criterion_(std::move(criterion)),
      options_(options),
      params_(model.parameters(), context, precision),
      optimizer_(options.optimizer, params_),
      scaler_(options.loss_scale, context.compute),
      state_(scaler_.initial_state()) {}

StepReport Trainer::step(Loader& loader) {
  const auto start = Clock::now();
  double loss = 0;
  Clock::duration waited{};
  prepare_step(state_,
               scheduled_lr(options_.schedule, options_.optimizer.lr, state_.applied, options_.total_steps));
  StepReport report{.step = state_.attempted + 1, .scale = state_.scale, .lr = state_.lr};

  params_.zero_gradients();
  for (std::int64_t i = 0; i < options_.accumulate; ++i) {
    const auto asked = Clock::now();
    const Batch batch = loader.next();
    waited += Clock::now() - asked;
    loss += forward_backward(batch) / static_cast<double>(options_.accumulate);
  }
  optimizer_.check_gradients(state_, options_.clip_norm);
  if (!options_.check_finite) state_.event = StepEvent::kGood;
  optimizer_.step(state_);
  report.loss = loss;
  report.event = state_.event;
  report.grad_norm =
      state_.event == StepEvent::kGood ? state_.grad_norm : std::numeric_limits<double>::quiet_NaN();
  scaler_.update(state_, [this] {
    const std::string name = params_.first_nonfinite_gradient();
    return name.empty() ? name : "gradient of " + name;
  });

  report.data_wait_ms = milliseconds(waited);
  report.step_ms = milliseconds(Clock::now() - start);
  return report;
}

// One micro-batch: adds its scaled gradients to the store and marks the step when the loss is not finite.
double Trainer::forward_backward(const Batch& batch) {
  Tape tape(context_);
  const Var image = cast(tape.constant(batch.image.to_device(context_.device)), context_.compute);
  const Var label = tape.constant(batch.label.to_device(context_.device));
  const Outputs outputs = model_(image);
  const Var loss = criterion_(outputs, label);
  const double value = loss.value().to_values().front();
  check_loss(state_, value);
  tape.backward(loss, static_cast<double>(state_.scale) / static_cast<double>(options_.accumulate));
  return value;
}

void Trainer::save(CheckpointContent& content) const {
  content.state = state_;
  for (const ParamSegment& segment : params_.segments()) {
    const FlatRegion& region = params_.region(segment.region);
    content.tensors.push_back({"model/" + segment.name, ParamStore::view(segment, region.master)});
  }
  for (const Optimizer::Moment& moment : optimizer_.moments())
    for (const ParamSegment& segment : params_.segments())
      if (segment.region == moment.region)
        content.tensors.push_back(
            {"optimizer/" + moment.name + "/" + segment.name, ParamStore::view(segment, moment.flat)});
}

void Trainer::load(const CheckpointContent& content, const ScalerKnobs* saved_knobs) {
  CheckpointContent own;
  save(own);
  restore_tensors(content, own.tensors);
  params_.refresh_copies();
  state_ = content.state;
  for (const std::string& difference : scaler_.resume(state_, saved_knobs))
    log_info("resume: {}", difference);
}

}  // namespace tandem

// The training step, and what a checkpoint needs of it.
#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/backends/backend.h"
#include "core/base/error.h"
#include "core/base/half.h"
#include "core/base/log.h"
#include "core/ops/elementwise.h"
#include "core/tensor/finite.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

std::vector<NamedTensor> buffer_tensors(Module& model, const Device& device) {
  std::vector<NamedTensor> tensors;
  for (const NamedBuffer& named : model.buffers())
    tensors.push_back({"buffer/" + named.name, named.buffer->on(device)});
  return tensors;
}

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
  prepare_step(state_, plateau_.factor * scheduled_lr(options_.schedule, options_.optimizer.lr,
                                                      state_.applied, options_.total_steps));
  report_ = {.step = state_.attempted + 1, .scale = state_.scale, .lr = state_.lr};

  params_.zero_gradients();
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < options_.accumulate; ++i) {
    if (i > 0 && options_.stop_requested && options_.stop_requested())
      fail(ErrorKind::kStopped, "[train] stopped inside step {}", report_.step);
    const auto asked = Clock::now();
    batches.push_back(loader.next());
    report_.data_wait_ms += milliseconds(Clock::now() - asked);
    const double loss = forward_backward(batches.back(), measurement());
    check_loss(state_, loss);
    report_.loss += loss / static_cast<double>(options_.accumulate);
  }
  const auto updates = Clock::now();
  // A replay that explains a bad step goes through forward_backward too; its time is part of the update.
  const double forward_ms = report_.forward_ms, backward_ms = report_.backward_ms;
  check(batches);
  apply();
  const auto end = Clock::now();
  report_.forward_ms = forward_ms;
  report_.backward_ms = backward_ms;
  report_.update_ms = milliseconds(end - updates);
  report_.step_ms = milliseconds(end - start);
  return report_;
}

// In mode headroom gradients stored in 16 bits are measured.
ReplayRequest Trainer::measurement() {
  if (!scaler_.measures_headroom()) return {};
  return {.gradients = [this](const GradientEvent& event) {
    if (is_16_bit_float(event.gradient.dtype()))
      state_.gradient_amax =
          std::max(state_.gradient_amax, static_cast<float>(largest_magnitude(event.gradient)));
  }};
}

// The optimizer's pass and the scaler's move: both, also when a weight outgrows its 16-bit copy.
void Trainer::apply() {
  try {
    optimizer_.step(state_, options_.clip_value);
  } catch (const Error&) {
    if (state_.weight_overflow) scaler_.update(state_);
    throw;
  }
  model_.commit(state_);
  scaler_.update(state_, [this] { return diagnosis(); });
}

// Sets the step's event from loss and gradients; explains one that is not good.
void Trainer::check(const std::vector<Batch>& batches) {
  optimizer_.check_gradients(state_, options_.clip_norm);
  // Where gradients are scaled or stored in FP16, an infinity is part of the method: it is always checked.
  const bool must_check = context_.compute == DType::kF16 || scaler_.mode() != LossScaleMode::kOff;
  if (!options_.check_finite && !must_check) state_.event = StepEvent::kGood;
  report_.event = state_.event;
  report_.grad_norm =
      state_.event == StepEvent::kGood ? state_.grad_norm : std::numeric_limits<double>::quiet_NaN();
  if (state_.event != StepEvent::kGood) explain(batches);
  report_.gradient_amax = state_.gradient_amax;
  if (!scaler_.sanitizes(state_)) return;
  params_.zero_gradients();
  model_.commit(state_);  // drops the statistics of the passes so far
  for (const Batch& batch : batches) forward_backward(batch);
  for (const ParamRegion region : {ParamRegion::kCast, ParamRegion::kKept})
    make_finite(params_.region(region).gradient, kHalfMax);
  optimizer_.check_gradients(state_, options_.clip_norm);
  state_.sanitized = 1;
}

void Trainer::explain(const std::vector<Batch>& batches) {
  report_.cause = find_nonfinite(batches, params_, [this](const Batch& batch, const ReplayRequest& request) {
    if (request.fp32_weight.empty()) forward_backward(batch, request);
    for (const NamedParameter& named : model_.parameters())
      if (named.name == request.fp32_weight)
        ParamStore::with_master(*named.parameter, [&] { forward_backward(batch, request); });
  });
  if (report_.cause && report_.cause->in_backward && std::isfinite(report_.cause->magnitude))
    state_.gradient_amax = static_cast<float>(report_.cause->magnitude);
  constexpr std::size_t kShownEvents = 20;
  recent_events_.push_back(fmt::format("{} {} at {}", report_.step,
                                       report_.event == StepEvent::kOverflow ? "overflow" : "forward",
                                       report_.scale));
  if (recent_events_.size() > kShownEvents) recent_events_.pop_front();
}

ScalerDiagnosis Trainer::diagnosis() const {
  ScalerDiagnosis d{.base_lr = options_.optimizer.lr, .clip_norm = options_.clip_norm};
  if (report_.cause) {
    d.first_nonfinite = to_text(*report_.cause);
    d.source = source_of(*report_.cause);
    if (report_.cause->fp32_cures) d.fp32_layer = report_.cause->layer;
    d.reads_input = report_.cause->reads_input;
  } else if (report_.event != StepEvent::kGood) {
    d.first_nonfinite =
        "no single value: the norm of the gradients, or a second pass over the batch was finite";
  }
  for (const std::string& event : recent_events_)
    d.recent_events += (d.recent_events.empty() ? "" : ", ") + event;
  return d;
}

// One micro-batch: adds its scaled gradients to the store, and returns the loss.
double Trainer::forward_backward(const Batch& batch, const ReplayRequest& request) {
  const auto start = Clock::now();
  Context context = context_;
  if (request.wide) context.compute = DType::kF32;
  context.draw = static_cast<std::uint64_t>(batch.number);  // a replay draws the same
  Tape tape(context, !request.wide);
  observe(tape, request);
  const Var image = cast(tape.constant(batch.image.to_device(context.device)), context.compute);
  Target target(tape.constant(batch.label.to_device(context.device)));
  if (batch.weight.defined()) target.weights = batch.weight.to_device(context.device);
  const Outputs outputs = model_(image);
  const Var loss = criterion_(outputs, target);
  const double value = loss.value().to_values().front();
  const auto turn = Clock::now();
  const double seed = static_cast<double>(state_.scale) / static_cast<double>(options_.accumulate);
  if (!request.wide && request.fp32_weight.empty()) tape.backward(loss, seed * request.seed_factor);
  report_.forward_ms += milliseconds(turn - start);
  report_.backward_ms += milliseconds(Clock::now() - turn);
  return value;
}

// The observers of the options first: what they write into a value is seen by the request's.
void Trainer::observe(Tape& tape, const ReplayRequest& request) const {
  if (options_.observe_ops || request.ops)
    tape.observe([this, &request](std::string_view op, const std::string& module, const Tensor& value) {
      if (options_.observe_ops) options_.observe_ops(op, module, value);
      if (request.ops) request.ops(op, module, value);
    });
  if (options_.observe_gradients || request.gradients)
    tape.observe_gradients([this, &request](const GradientEvent& event) {
      if (options_.observe_gradients) options_.observe_gradients(event);
      if (request.gradients) request.gradients(event);
    });
}

void Trainer::note_metric(std::int64_t step, double value, MetricMode mode) {
  plateau_update(plateau_, options_.schedule, step, value, mode);
}

void Trainer::with_mean_weights(const std::function<void()>& body) {
  if (optimizer_.ema().empty()) return body();
  const auto copy = [this](const Tensor& from, const Tensor& to) {
    backend_of(params_.device()).map({.kernel = MapKernel::kCopy}, {&from, 1}, to);
  };
  std::vector<Tensor> weights;
  const auto restore = [&] {
    for (std::size_t i = 0; i < weights.size(); ++i)
      copy(weights[i], params_.region(optimizer_.ema()[i].region).master);
    params_.refresh_copies();
  };
  try {
    for (const Optimizer::Moment& mean : optimizer_.ema()) {
      const Tensor& master = params_.region(mean.region).master;
      weights.push_back(master.clone(MemoryCategory::kWorkspace));
      copy(mean.flat, master);
    }
    params_.refresh_copies();
    body();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

void Trainer::save(CheckpointContent& content) const {
  content.state = state_;
  content.plateau = plateau_;
  const auto add = [&](const std::string& group, ParamRegion region, const Tensor& flat) {
    for (const ParamSegment& segment : params_.segments())
      if (segment.region == region)
        content.tensors.push_back({group + "/" + segment.name, ParamStore::view(segment, flat)});
  };
  for (const ParamSegment& segment : params_.segments()) {
    const FlatRegion& region = params_.region(segment.region);
    content.tensors.push_back({"model/" + segment.name, ParamStore::view(segment, region.master)});
  }
  for (const NamedTensor& buffer : buffer_tensors(model_, context_.device)) content.tensors.push_back(buffer);
  for (const Optimizer::Moment& moment : optimizer_.moments())
    add("optimizer/" + moment.name, moment.region, moment.flat);
  for (const Optimizer::Moment& mean : optimizer_.ema()) add("ema", mean.region, mean.flat);
}

void Trainer::load(const CheckpointContent& content, const ScalerKnobs* saved_knobs) {
  CheckpointContent own;
  save(own);
  const auto is_mean = [](const NamedTensor& named) { return named.name.starts_with("ema/"); };
  const bool has_mean = std::ranges::any_of(content.tensors, is_mean);
  if (!has_mean) std::erase_if(own.tensors, is_mean);
  restore_tensors(content, own.tensors);
  params_.refresh_copies();
  if (!has_mean && !optimizer_.ema().empty()) {
    optimizer_.reset_ema();
    log_info("resume: optimizer.ema: the checkpoint has none, so it starts at the saved weights");
  }
  state_ = content.state;
  plateau_ = content.plateau;
  for (const std::string& difference : scaler_.resume(state_, saved_knobs))
    log_info("resume: {}", difference);
}

}  // namespace tandem

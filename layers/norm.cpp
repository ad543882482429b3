// Normalisation layers.
#include "layers/norm.h"

#include <cmath>

#include "core/base/error.h"
#include "core/config/numbers.h"

namespace tandem {
namespace {

const NormLayer::Options& checked(std::string_view layer, const NormLayer::Options& o) {
  if (o.channels < 1)
    fail(ErrorKind::kShape, "[{}] no channels: got {}, expected 1 or more", layer, o.channels);
  return o;
}

}  // namespace

NormLayer::NormLayer(std::string_view layer, const Options& o)
    : options_(checked(layer, o)),
      weight_(Shape{o.channels}, ParamRegion::kKept, {Initializer::Kind::kOnes}),
      bias_(Shape{o.channels}, ParamRegion::kKept, {Initializer::Kind::kZeros}) {
  add("weight", weight_);
  add("bias", bias_);
}

Outputs InstanceNorm::forward(const Var& x) {
  return instance_norm(x, weight_.on(x.tape()), bias_.on(x.tape()), norm_options());
}

GroupNorm::GroupNorm(const Options& o, std::int64_t groups) : NormLayer("group_norm", o), groups_(groups) {
  if (groups < 1 || o.channels % groups != 0)
    fail(ErrorKind::kShape, "[group_norm] groups: got {}, expected a divisor of {} channels", groups,
         o.channels);
}

Outputs GroupNorm::forward(const Var& x) {
  return group_norm(x, weight_.on(x.tape()), bias_.on(x.tape()), groups_, norm_options());
}

Outputs LayerNorm::forward(const Var& x) {
  return layer_norm(x, weight_.on(x.tape()), bias_.on(x.tape()), norm_options());
}

BatchNorm::BatchNorm(const Options& o, double momentum)
    : NormLayer("batch_norm", o),
      momentum_(momentum),
      running_mean_(Shape{o.channels}, 0),
      running_var_(Shape{o.channels}, 1),
      batches_(Shape{}, 0, DType::kI64) {
  if (!(momentum >= 0 && momentum <= 1))
    fail(ErrorKind::kShape, "[batch_norm] momentum: got {}, expected 0 to 1", momentum);
  add("running_mean", running_mean_);
  add("running_var", running_var_);
  add("num_batches_tracked", batches_);
}

Outputs BatchNorm::forward(const Var& x) {
  Tape& tape = x.tape();
  const Device& device = tape.context().device;
  if (!tape.context().training)
    return batch_norm_eval(x, weight_.on(tape), bias_.on(tape),
                           {running_mean_.on(device), running_var_.on(device)}, norm_options());
  BatchMoments moments;
  const Var y = batch_norm(x, weight_.on(tape), bias_.on(tape), norm_options(), &moments);
  if (tape.recording() && moments.count > 0) pending_.push_back(moments);
  return y;
}

void BatchNorm::settle(bool accepted) {
  if (accepted)
    for (const BatchMoments& moments : pending_) fold_in(moments);
  pending_.clear();
}

void BatchNorm::fold_in(const BatchMoments& moments) {
  const Device& device = moments.mean.device();
  Backend& backend = backend_of(device);
  const auto count = static_cast<double>(moments.count);
  const auto blend = [&](const Tensor& running, const Tensor& batch, double unbias) {
    const MapArgs args{.kernel = MapKernel::kBlend, .params = {.a = 1 - momentum_, .b = momentum_ * unbias}};
    backend.map(args, std::array{running, batch}, running);
  };
  blend(running_mean_.on(device), moments.mean, 1);
  blend(running_var_.on(device), moments.variance, count / (count - 1));
  batches_.on(device).data<std::int64_t>()[0] += 1;
}

std::optional<NormSpec> parse_norm(std::string_view text) {
  constexpr std::string_view kGroup = "group:";
  if (text == "none") return NormSpec{NormSpec::Kind::kNone};
  if (text == "instance") return NormSpec{NormSpec::Kind::kInstance};
  if (text == "batch") return NormSpec{NormSpec::Kind::kBatch};
  if (!text.starts_with(kGroup)) return std::nullopt;
  const auto groups = read_number(text.substr(kGroup.size())).value;
  constexpr double kMost = 1 << 20;
  if (!groups || !(*groups >= 1 && *groups <= kMost) || *groups != std::floor(*groups)) return std::nullopt;
  return NormSpec{NormSpec::Kind::kGroup, static_cast<std::int64_t>(*groups)};
}

std::unique_ptr<NormLayer> make_norm(const NormSpec& spec, const NormLayer::Options& options) {
  switch (spec.kind) {
    case NormSpec::Kind::kInstance:
      return std::make_unique<InstanceNorm>(options);
    case NormSpec::Kind::kBatch:
      return std::make_unique<BatchNorm>(options);
    case NormSpec::Kind::kGroup:
      return std::make_unique<GroupNorm>(options, spec.groups);
    case NormSpec::Kind::kNone:
      break;
  }
  return nullptr;
}

}  // namespace tandem

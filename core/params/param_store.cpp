// Layout, binding and rounding of the flat parameter buffers.
#include "core/params/param_store.h"

#include <algorithm>
#include <cmath>

#include "core/backends/backend.h"
#include "core/base/error.h"
#include "core/tensor/finite.h"

namespace tandem {
namespace {

// Segments start at multiples of this many elements: 64 bytes of a 16-bit copy, and of every wider dtype.
constexpr std::int64_t kAlignElements = 32;

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

void check_patterns(std::span<const NamedParameter> parameters, const Precision& precision) {
  std::vector<std::string> all, cast;
  for (const NamedParameter& p : parameters) {
    all.push_back(p.name);
    if (p.parameter->region() == ParamRegion::kCast) cast.push_back(p.name);
  }
  require_pattern_matches(precision.fp32_layers, "precision.fp32_layers", all,
                          "the name of a layer or parameter");
  require_pattern_matches(precision.low_layers, "precision.low_layers", cast,
                          "the name of a conv or linear layer or its weight (others are always FP32)");
}

// Writes `values` (logical order) into a tensor in host memory.
template <class T>
void write_values(const Tensor& target, std::span<const double> values) {
  const std::int64_t taps = target.shape().rank() > 2 ? target.shape().spatial_numel() : 1;
  const std::int64_t channels = target.channels(), pitch = target.channel_pitch();
  T* const out = target.data<T>();
  for (std::int64_t k = 0; k < target.shape().batch(); ++k)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t t = 0; t < taps; ++t)
        out[(k * taps + t) * pitch + c] =
            static_cast<T>(values[static_cast<std::size_t>((k * channels + c) * taps + t)]);
}

bool has_nonfinite(const Tensor& tensor) { return first_nonfinite(tensor).has_value(); }

// Largest |master| that is finite while its copy is infinite; 0 if there is none.
double largest_overflow(const ParamSegment& segment, const FlatRegion& cast) {
  const std::vector<double> masters = ParamStore::view(segment, cast.master).to_values();
  const std::vector<double> copies = ParamStore::view(segment, cast.copy).to_values();
  double largest = 0;
  for (std::size_t i = 0; i < masters.size(); ++i)
    if (std::isfinite(masters[i]) && !std::isfinite(copies[i]))
      largest = std::max(largest, std::abs(masters[i]));
  return largest;
}

}  // namespace

ParamStore::ParamStore(std::span<const NamedParameter> parameters, const Context& context,
                       const Precision& precision, std::int64_t channel_multiple)
    : device_(context.device) {
  check_patterns(parameters, precision);
  lay_out(parameters, precision,
          channel_multiple > 0 ? channel_multiple : backend_of(device_).channel_multiple());
  allocate(precision.compute);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& parameter = *parameters[i].parameter;
    const ParamSegment& segment = segments_[i];
    const FlatRegion& flat = region(segment.region);
    parameter.master_ = view(segment, flat.master);
    parameter.gradient_ = view(segment, flat.gradient);
    parameter.value_ = view(segment, flat.copy);
  }
  initialize(parameters, context.seed);
  refresh_copies();
}

void ParamStore::lay_out(std::span<const NamedParameter> parameters, const Precision& precision,
                         std::int64_t multiple) {
  for (const NamedParameter& named : parameters) {
    check_internal(find(named.name) == nullptr, "two parameters named " + named.name);
    ParamSegment segment{.name = named.name, .shape = named.parameter->shape()};
    const bool is_low = named.parameter->region() == ParamRegion::kCast &&
                        (precision.compute == DType::kF32 || precision.dtype_of(named.name) != DType::kF32);
    segment.region = is_low ? ParamRegion::kCast : ParamRegion::kKept;
    segment.channel_pitch = round_up(segment.shape.channels(), multiple);
    const std::int64_t channels = std::max<std::int64_t>(segment.shape.channels(), 1);
    segment.size = segment.shape.numel() / channels * segment.channel_pitch;
    FlatRegion& flat = region(segment.region);
    segment.offset = flat.size;
    flat.size = round_up(flat.size + segment.size, kAlignElements);
    segments_.push_back(std::move(segment));
  }
}

void ParamStore::allocate(DType compute) {
  const bool is_reference = device_.kind == DeviceKind::kReference;
  const DType wide = is_reference ? DType::kF64 : DType::kF32;
  for (FlatRegion& flat : regions_) {
    const Shape shape{flat.size};
    flat.master = Tensor::zeros(shape, wide, device_, MemoryCategory::kWeights);
    flat.gradient = Tensor::zeros(shape, wide, device_, MemoryCategory::kGradients);
    flat.copy = flat.master;
  }
  FlatRegion& cast = region(ParamRegion::kCast);
  if (is_16_bit_float(compute) && !is_reference && cast.size > 0)
    cast.copy = Tensor::zeros(Shape{cast.size}, compute, device_, MemoryCategory::kWeights);
}

void ParamStore::initialize(std::span<const NamedParameter> parameters, std::uint64_t seed) {
  const bool on_host = device_.kind != DeviceKind::kCuda;
  std::array<Tensor, 2> host;
  for (std::size_t r = 0; r < regions_.size(); ++r)
    host[r] = on_host ? regions_[r].master : Tensor::zeros(Shape{regions_[r].size}, DType::kF32);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor target = view(segments_[i], host[static_cast<std::size_t>(segments_[i].region)]);
    const std::vector<double> values = initial_values(*parameters[i].parameter, seed, i);
    if (target.dtype() == DType::kF64)
      write_values<double>(target, values);
    else
      write_values<float>(target, values);
  }
  if (on_host) return;
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    const Tensor& master = regions_[r].master;
    master.storage()->allocator().memory().copy_from_host(master.raw(), host[r].raw(),
                                                          master.storage()->bytes());
  }
}

const ParamSegment* ParamStore::find(std::string_view name) const {
  const auto found = std::ranges::find(segments_, name, &ParamSegment::name);
  return found == segments_.end() ? nullptr : &*found;
}

Tensor ParamStore::view(const ParamSegment& segment, const Tensor& flat) {
  return {flat.storage(), flat.offset() + segment.offset, segment.shape, flat.dtype(), segment.channel_pitch};
}

std::int64_t ParamStore::parameter_count() const {
  std::int64_t count = 0;
  for (const ParamSegment& segment : segments_) count += segment.shape.numel();
  return count;
}

void ParamStore::zero_gradients() {
  for (const FlatRegion& flat : regions_) flat.gradient.set_zero();
}

void ParamStore::refresh_copies() {
  const FlatRegion& cast = region(ParamRegion::kCast);
  if (cast.has_copy()) {
    backend_of(device_).map({.kernel = MapKernel::kCopy}, {&cast.master, 1}, cast.copy);
    check_copies();
  }
  mark_changed();
}

void ParamStore::mark_changed() {
  for (const FlatRegion& flat : regions_) {
    flat.master.storage()->mark_changed();
    if (flat.has_copy()) flat.copy.storage()->mark_changed();
  }
}

void ParamStore::check_copies() const {
  const std::string overflowed = first_overflowed_copy();
  if (overflowed.empty()) return;
  const FlatRegion& cast = region(ParamRegion::kCast);
  const std::string layer = overflowed.substr(0, overflowed.rfind('.'));
  throw Error(
      ErrorKind::kNumeric,
      fmt::format("[weights] a weight of '{}' does not fit {}: got |w| = {:.6g}, expected less than {}",
                  overflowed, name(cast.copy.dtype()), largest_overflow(*find(overflowed), cast),
                  cast.copy.dtype() == DType::kF16 ? "65520" : "3.39615e38"),
      fmt::format("Keep this layer in FP32 with precision.fp32_layers: [\"{}\"], or lower optimizer.lr, or "
                  "set precision.compute: bf16.",
                  layer));
}

std::string ParamStore::first_overflowed_copy() const {
  const FlatRegion& cast = region(ParamRegion::kCast);
  if (!cast.has_copy()) return "";
  for (const ParamSegment& segment : segments_)
    if (segment.region == ParamRegion::kCast && largest_overflow(segment, cast) > 0) return segment.name;
  return "";
}

void ParamStore::with_master(Parameter& parameter, const std::function<void()>& body) {
  const Tensor copy = parameter.value_;
  parameter.value_ = parameter.master_;
  try {
    body();
  } catch (...) {
    parameter.value_ = copy;
    throw;
  }
  parameter.value_ = copy;
}

std::string ParamStore::first_nonfinite() const {
  for (const ParamSegment& segment : segments_) {
    const FlatRegion& flat = region(segment.region);
    if (has_nonfinite(view(segment, flat.master)) ||
        (flat.has_copy() && has_nonfinite(view(segment, flat.copy))))
      return segment.name;
  }
  return "";
}

}  // namespace tandem

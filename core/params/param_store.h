// All parameters of a model as flat buffers: FP32 master, compute copy and FP32 gradient, in two regions.
// Knows names and shapes, not the model.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/params/parameter.h"
#include "core/params/precision.h"
#include "core/tensor/context.h"

namespace tandem {

struct NamedParameter {
  std::string name;  // dotted, "enc0.conv1.weight"
  Parameter* parameter = nullptr;
};

// Where one parameter lies: elements offset .. offset + size of its region's flat buffers, as [K, taps, C]
// with C padded with zeros to channel_pitch; offset is a multiple of 64 bytes in every buffer. The padding
// stays zero: its gradient is zero, and every optimizer keeps a zero with a zero gradient.
struct ParamSegment {
  std::string name;
  Shape shape;
  // Where it lies. A conv or linear weight of an FP32 layer lies in the kept region, so that each region has
  // one copy dtype.
  ParamRegion region = ParamRegion::kKept;
  std::int64_t offset = 0, size = 0;
  std::int64_t channel_pitch = 0;
};

// The flat buffers of one region, rank 1, of `size` elements (0: the region is empty, nothing to compute).
// master and gradient are F32; copy has the compute dtype in the cast region and is the master itself in the
// kept one and when the compute dtype is FP32. On the reference device all three are F64 and copies are the
// master.
struct FlatRegion {
  Tensor master, gradient, copy;
  std::int64_t size = 0;

  bool has_copy() const { return copy.storage() != master.storage(); }
};

class ParamStore {
 public:
  // Lays out and binds `parameters` (their order is kept; they must outlive the store), initialises the
  // masters from context.seed and fills the copies. The values of a parameter depend on the seed, its
  // position in the list, its shape and its initialiser; not on threads, padding or precision.
  // precision.compute decides the copies; context gives device and seed. channel_multiple: of channel_pitch;
  // 0 takes the backend's. Throws Error{kConfig} for a pattern of `precision` that matches nothing (or, in
  // low_layers, nothing that can be lowered), naming the nearest names.
  ParamStore(std::span<const NamedParameter> parameters, const Context& context, const Precision& precision,
             std::int64_t channel_multiple = 0);
  ParamStore(const ParamStore&) = delete;
  ParamStore& operator=(const ParamStore&) = delete;

  std::span<const ParamSegment> segments() const { return segments_; }
  const ParamSegment* find(std::string_view name) const;  // null if there is none
  FlatRegion& region(ParamRegion region) { return regions_[static_cast<std::size_t>(region)]; }
  const FlatRegion& region(ParamRegion region) const { return regions_[static_cast<std::size_t>(region)]; }
  const Device& device() const { return device_; }

  // A flat buffer (master, gradient, copy or a moment of the same layout) as `segment`'s tensor.
  static Tensor view(const ParamSegment& segment, const Tensor& flat);

  // Number of learnable values, padding left out.
  std::int64_t parameter_count() const;
  // Overwrites all gradients with zeros.
  void zero_gradients();
  // Rounds the masters to the copies (nearest even) after a master was written by other means than the
  // optimizer, and calls mark_changed. Throws Error{kNumeric} as check_copies does.
  void refresh_copies();
  // Throws Error{kNumeric} naming the first parameter with a finite master whose copy is infinite (event W of
  // amp.md 2.3), with its largest value and the remedies.
  void check_copies() const;
  // Name of the first parameter with a finite master whose copy is infinite; empty if there is none.
  std::string first_overflowed_copy() const;
  // To be called after an optimizer step wrote masters and copies: tells the backends' caches of packed
  // weights.
  void mark_changed();
  // Runs `body` with the master of a bound parameter in the place of its copy: as if its layer computed in
  // FP32.
  static void with_master(Parameter& parameter, const std::function<void()>& body);
  // Name of the first parameter with a non-finite master or copy; empty when all is finite. Reads everything.
  std::string first_nonfinite() const;

 private:
  void lay_out(std::span<const NamedParameter> parameters, const Precision& precision, std::int64_t multiple);
  void allocate(DType compute);
  void initialize(std::span<const NamedParameter> parameters, std::uint64_t seed);

  std::vector<ParamSegment> segments_;
  std::array<FlatRegion, 2> regions_;
  Device device_;
};

// The values of one parameter in logical order ([K, C, taps]); what ParamStore writes into the master.
std::vector<double> initial_values(const Parameter& parameter, std::uint64_t seed, std::uint64_t position);

}  // namespace tandem

// All parameters of a model as flat buffers: FP32 master, compute copy and FP32 gradient, in two regions.
// Knows names and shapes, not the model.
#pragma once

#include <array>
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
// with C padded with zeros to channel_pitch; offset is a multiple of 64 bytes in every buffer.
struct ParamSegment {
  std::string name;
  Shape shape;
  ParamRegion region =
      ParamRegion::kKept;  // where it lies: a weight of an FP32 layer lies in the kept region
  std::int64_t offset = 0, size = 0;
  std::int64_t channel_pitch = 0;
};

// The flat buffers of one region. copy aliases master in the kept region and when the compute dtype is FP32.
struct FlatRegion {
  Tensor master, gradient, copy;
  std::int64_t size = 0;
};

class ParamStore {
 public:
  // Lays out and binds `parameters` (their order is kept), initialises the master from `context.seed` (Philox
  // by position in the list) and fills the copies. Throws Error{kConfig} for a pattern of `precision` that
  // matches nothing.
  ParamStore(std::span<const NamedParameter> parameters, const Context& context, const Precision& precision);
  ParamStore(const ParamStore&) = delete;
  ParamStore& operator=(const ParamStore&) = delete;

  std::span<const ParamSegment> segments() const { return segments_; }
  const ParamSegment* find(std::string_view name) const;
  FlatRegion& region(ParamRegion region) { return regions_[static_cast<std::size_t>(region)]; }
  const FlatRegion& region(ParamRegion region) const { return regions_[static_cast<std::size_t>(region)]; }

  // A flat buffer (master, gradient or a moment of the same layout) as `segment`'s tensor.
  static Tensor view(const ParamSegment& segment, const Tensor& flat);

  // Number of learnable values, padding left out.
  std::int64_t parameter_count() const;
  void zero_gradients();
  // Rounds the master to the copies (nearest even) after the master was written by other means than the
  // optimizer, and tells the backends' caches. Throws Error{kNumeric} naming the first parameter with a
  // finite master whose copy is infinite.
  void refresh_copies();
  // To be called after an optimizer step wrote masters and copies.
  void mark_changed();
  // Name of the first parameter with a non-finite master, or with an infinite copy; empty when all is finite.
  std::string first_nonfinite() const;

 private:
  std::vector<ParamSegment> segments_;
  std::array<FlatRegion, 2> regions_;
};

}  // namespace tandem

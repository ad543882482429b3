// The finite check of flat gradients, and the fused optimizer update. What an update is, is
// core/kernels/optimizer.h's subject.
#pragma once

#include "core/backends/cuda/kernels/block.h"
#include "core/backends/cuda/kernels/elements.h"
#include "core/kernels/optimizer.h"

namespace tandem::cuda {

inline constexpr std::int64_t kCheckElements = 8192;  // of a block

TD_HD bool is_finite(float x) { return (kernels::float_bits(x) & 0x7f800000) != 0x7f800000; }

// partial[block] = number of values that are not finite after the factor `inverse`, sum of squares (without
// the factor).
struct GradientSums {
  std::int64_t elements;
  const float* gradient;
  float inverse;
  double* partial;

  struct Shared {
    double warp[kBlockWarps];
  };
  template <class Block>
  TD_D void operator()(Block& block) const {
    const std::int64_t begin = block.index() * kCheckElements;
    const std::int64_t end = begin + kCheckElements < elements ? begin + kCheckElements : elements;
    std::int32_t bad = 0;
    double squares = 0;
    for (std::int64_t i = begin + block.thread(); i < end; i += kBlockThreads) {
      const float g = gradient[i];
      bad += is_finite(g * inverse) ? 0 : 1;
      squares += static_cast<double>(g) * static_cast<double>(g);
    }
    const double all_bad = block_sum(block, block.shared().warp, static_cast<double>(bad));
    squares = block_sum(block, block.shared().warp, squares);
    if (block.thread() != 0) return;
    partial[2 * block.index()] = all_bad;
    partial[2 * block.index() + 1] = squares;
  }
};

// A part of the region with the factors of its step.
struct UpdatePart {
  std::int64_t end;
  kernels::SgdStep<float> sgd;
  kernels::AdamStep<float> adam;
  kernels::RmsPropStep<float> rms;
};

// A kind of update: `apply(w, g, m1, m2, m3, part)` gives the new w; which moments it has.
struct SgdPlain {
  static constexpr int kMoments = 0;  // bit k - 1: moment k is read and written
  static TD_HD float apply(float w, float g, float (&m)[3], const UpdatePart& part) {
    return kernels::sgd_update(w, g, m[0], part.sgd);
  }
};
struct SgdMomentum : SgdPlain {
  static constexpr int kMoments = 1;
};
struct AdamBoth {
  static constexpr int kMoments = 3;
  static TD_HD float apply(float w, float g, float (&m)[3], const UpdatePart& part) {
    return kernels::adam_update(w, g, m[0], m[1], part.adam, SquareRoot{});
  }
  struct SquareRoot {
    TD_HD float operator()(float x) const { return ::sqrtf(x); }
  };
};
template <bool kCentered, bool kMomentum>
struct RmsProp {
  static constexpr int kMoments = 1 | (kCentered ? 2 : 0) | (kMomentum ? 4 : 0);
  static TD_HD float apply(float w, float g, float (&m)[3], const UpdatePart& part) {
    return kernels::rmsprop_update<kCentered, kMomentum>(w, g, m[0], m[1], m[2], part.rms,
                                                         AdamBoth::SquareRoot{});
  }
};

// Backend::optimizer_step, an index per parameter.
template <class Kind>
struct OptimizerUpdate {
  std::int64_t count;
  const UpdatePart* parts;  // ascending ends, the last one count
  std::int32_t part_count;
  float inverse, clip, clip_value, ema_rate;
  const float* gradient;
  float* master;
  float* moments[3];
  void* copy;  // F16 or BF16; null: none
  DType copy_dtype;
  float* ema;                     // null: none
  std::int32_t* weight_overflow;  // set to 1 where a finite master became infinite

  TD_HD const UpdatePart& part_of(std::int64_t i) const {
    std::int32_t low = 0, high = part_count - 1;
    while (low < high) {
      const std::int32_t middle = (low + high) / 2;
      if (parts[middle].end > i)
        high = middle;
      else
        low = middle + 1;
    }
    return parts[low];
  }

  TD_HD void operator()(std::int64_t i) const {
    const float g = kernels::clip_to(gradient[i] * inverse * clip, clip_value);
    float m[3] = {0, 0, 0};
    for (int k = 0; k < 3; ++k)
      if ((Kind::kMoments >> k & 1) != 0) m[k] = moments[k][i];
    const float w = Kind::apply(master[i], g, m, part_of(i));
    master[i] = w;
    for (int k = 0; k < 3; ++k)
      if ((Kind::kMoments >> k & 1) != 0) moments[k][i] = m[k];
    if (ema != nullptr) ema[i] += ema_rate * (w - ema[i]);
    if (copy == nullptr) return;
    write_as(copy, copy_dtype, i, w);
    if (is_finite(w) && !is_finite(read_as(copy, copy_dtype, i))) *weight_overflow = 1;
  }
};

}  // namespace tandem::cuda

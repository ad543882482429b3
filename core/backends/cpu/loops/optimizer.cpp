// The fused optimizer pass: unscale, clip, update, running mean, round to the 16-bit copy.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/stage.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

constexpr std::int64_t kBlock = 2048;  // floats

inline float square_root(float x) { return __builtin_sqrtf(x); }

// The buffers of one block.
struct Block {
  std::int64_t n;
  const float* g;  // unscaled and clipped
  float *w, *m1, *m2, *m3;
};

void sgd_block(const Block& b, const kernels::SgdStep<float>& factors) {
  const kernels::SgdStep<float> step = factors;
  if (step.momentum == 0) {
    float unused = 0;
    for (std::int64_t i = 0; i < b.n; ++i) b.w[i] = kernels::sgd_update(b.w[i], b.g[i], unused, step);
    return;
  }
#pragma GCC ivdep
  for (std::int64_t i = 0; i < b.n; ++i) b.w[i] = kernels::sgd_update(b.w[i], b.g[i], b.m1[i], step);
}

void adam_block(const Block& b, const kernels::AdamStep<float>& factors) {
  const kernels::AdamStep<float> step = factors;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < b.n; ++i)
    b.w[i] = kernels::adam_update(b.w[i], b.g[i], b.m1[i], b.m2[i], step, square_root);
}

// A buffer that is not used stands for itself in registers.
template <bool kCentered, bool kMomentum>
void rmsprop_block(const Block& b, const kernels::RmsPropStep<float>& factors) {
  const kernels::RmsPropStep<float> step = factors;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < b.n; ++i) {
    float mean = kCentered ? b.m2[i] : 0.0f, momentum = kMomentum ? b.m3[i] : 0.0f;
    b.w[i] = kernels::rmsprop_update<kCentered, kMomentum>(b.w[i], b.g[i], b.m1[i], mean, momentum, step,
                                                           square_root);
    if constexpr (kCentered) b.m2[i] = mean;
    if constexpr (kMomentum) b.m3[i] = momentum;
  }
}

void update_block(const OptimizerLoop& loop, const OptimizerLoopPart& part, std::int64_t first,
                  std::int64_t n) {
  float g[kBlock];
  const float* gradient = loop.gradient + first;
  const float inverse = loop.inverse, clip = loop.clip, bound = loop.clip_value;
  for (std::int64_t i = 0; i < n; ++i) g[i] = gradient[i] * inverse * clip;
  if (bound > 0)
    for (std::int64_t i = 0; i < n; ++i) g[i] = kernels::clip_to(g[i], bound);
  const auto at = [first](float* buffer) { return buffer == nullptr ? nullptr : buffer + first; };
  const Block b{n, g, loop.master + first, at(loop.moment1), at(loop.moment2), at(loop.moment3)};
  if (loop.kind == OptimizerKind::kSgd) return sgd_block(b, part.sgd);
  if (loop.kind != OptimizerKind::kRmsProp) return adam_block(b, part.adam);
  const bool momentum = part.rms.momentum != 0;
  if (loop.centered)
    momentum ? rmsprop_block<true, true>(b, part.rms) : rmsprop_block<true, false>(b, part.rms);
  else
    momentum ? rmsprop_block<false, true>(b, part.rms) : rmsprop_block<false, false>(b, part.rms);
}

// ema += rate (w - ema)
void mean_block(const OptimizerLoop& loop, std::int64_t first, std::int64_t n) {
  float* ema = loop.ema + first;
  const float *w = loop.master + first, rate = loop.ema_rate;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) ema[i] += rate * (w[i] - ema[i]);
}

// Whether a finite master became infinite.
bool store_copy(const OptimizerLoop& loop, std::int64_t first, std::int64_t n) {
  std::uint16_t* copy = static_cast<std::uint16_t*>(loop.copy) + first;
  const float* w = loop.master + first;
  narrow(w, copy, loop.copy_dtype, n);
  const std::uint32_t infinity = loop.copy_dtype == DType::kF16 ? 0x7c00u : 0x7f80u;
  std::uint32_t found = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t is_infinite = (copy[i] & 0x7fffu) == infinity;
    const std::uint32_t was_finite = (bits_of(w[i]) & 0x7f800000u) != 0x7f800000u;
    found |= is_infinite & was_finite;
  }
  return found != 0;
}

}  // namespace

bool optimizer_step(const OptimizerLoop& loop) {
  constexpr std::int64_t kTask = 8 * kBlock;
  const std::int64_t tasks = (loop.n + kTask - 1) / kTask;
  int overflow = 0;
  parallel_tasks(tasks, loop.threads, [&](std::int64_t task, int) {
    const std::int64_t end = (task + 1) * kTask < loop.n ? (task + 1) * kTask : loop.n;
    const OptimizerLoopPart* part = loop.parts;
    for (std::int64_t first = task * kTask, n = 0; first < end; first += n) {
      while (part->end <= first) ++part;
      n = end - first < kBlock ? end - first : kBlock;
      n = part->end - first < n ? part->end - first : n;
      update_block(loop, *part, first, n);
      if (loop.ema != nullptr) mean_block(loop, first, n);
      if (loop.copy != nullptr && store_copy(loop, first, n))
        __atomic_store_n(&overflow, 1, __ATOMIC_RELAXED);
    }
  });
  return overflow != 0;
}

}  // namespace tandem::TD_ISA_NAMESPACE

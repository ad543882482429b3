// The fused optimizer pass: unscale, clip, update, round to the 16-bit copy.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/stage.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

constexpr std::int64_t kBlock = 2048;  // floats

void update_block(const OptimizerLoop& loop, std::int64_t first, std::int64_t n) {
  float g[kBlock];
  const float* gradient = loop.gradient + first;
  const float inverse = loop.inverse, clip = loop.clip;
  for (std::int64_t i = 0; i < n; ++i) g[i] = gradient[i] * inverse * clip;
  float* w = loop.master + first;
  float* m = loop.moment1 != nullptr ? loop.moment1 + first : nullptr;
  if (loop.kind == OptimizerKind::kSgd) {
    const kernels::SgdStep<float> step = loop.sgd;
    if (step.momentum == 0) {
      float unused = 0;
      for (std::int64_t i = 0; i < n; ++i) w[i] = kernels::sgd_update(w[i], g[i], unused, step);
      return;
    }
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) w[i] = kernels::sgd_update(w[i], g[i], m[i], step);
    return;
  }
  const kernels::AdamStep<float> step = loop.adam;
  float* v = loop.moment2 + first;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    w[i] = kernels::adam_update(w[i], g[i], m[i], v[i], step, [](float x) { return __builtin_sqrtf(x); });
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
    for (std::int64_t first = task * kTask; first < end; first += kBlock) {
      const std::int64_t n = end - first < kBlock ? end - first : kBlock;
      update_block(loop, first, n);
      if (loop.copy != nullptr && store_copy(loop, first, n))
        __atomic_store_n(&overflow, 1, __ATOMIC_RELAXED);
    }
  });
  return overflow != 0;
}

}  // namespace tandem::TD_ISA_NAMESPACE

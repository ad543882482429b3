// Conversions of runs of elements, the FP16 split, and the table of this level's kernels.
#include "core/backends/cpu/kernels/kernel_table.h"
#include "core/backends/cpu/kernels/vec.h"

namespace tandem::TD_ISA_NAMESPACE {

void run_row(const RowJob& job);
void run_gradient(const GradientJob& job);

namespace {

constexpr std::int64_t kLanes = Vec::kLanes;

// Calls step(src, dst, i) for whole vectors, and once more on padded copies for the rest: no scalar code, so
// that the last elements are rounded by the same instructions.
template <class From, class To, class Step>
void for_vectors(const From* src, To* dst, std::int64_t n, const Step& step) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) step(src + i, dst + i);
  if (i == n) return;
  From in[kLanes] = {};
  To out[kLanes] = {};
  std::memcpy(in, src + i, static_cast<std::size_t>(n - i) * sizeof(From));
  step(in, out);
  std::memcpy(dst + i, out, static_cast<std::size_t>(n - i) * sizeof(To));
}

// step over the rows of `job`; rows that touch are one run.
template <class From, class To, class Step>
void for_rows(const CopyJob& job, const Step& step) {
  const auto* src = static_cast<const From*>(job.src);
  auto* dst = static_cast<To*>(job.dst);
  if (job.src_pitch == job.columns && job.dst_pitch == job.columns)
    return for_vectors(src, dst, job.rows * job.columns, step);
  for (std::int64_t r = 0; r < job.rows; ++r)
    for_vectors(src + r * job.src_pitch, dst + r * job.dst_pitch, job.columns, step);
}

void widen(const CopyJob& job) {
  using U16 = std::uint16_t;
  if (job.dtype == DType::kF32)
    for_rows<float, float>(job, [](const float* s, float* d) { store(d, load(s)); });
  else if (job.dtype == DType::kF16)
    for_rows<U16, float>(job, [](const U16* s, float* d) { store(d, load_half(s)); });
  else
    for_rows<U16, float>(job, [](const U16* s, float* d) { store(d, load_bfloat16(s)); });
}

void narrow(const CopyJob& job) {
  using U16 = std::uint16_t;
  if (job.dtype == DType::kF32)
    for_rows<float, float>(job, [](const float* s, float* d) { store(d, load(s)); });
  else if (job.dtype == DType::kF16)
    for_rows<float, U16>(job, [](const float* s, U16* d) { store_half(d, load(s)); });
  else
    for_rows<float, U16>(job, [](const float* s, U16* d) { store_bfloat16(d, load(s)); });
}

typedef float FloatLanes __attribute__((vector_size(Vec::kLanes * 4)));

struct Parts {
  UintLanes hi, lo, finite;  // as FP32 bits
};

// See split.h for the definition and why the parts are exact.
TD_INLINE Parts split_lanes(Vec value) {
  UintLanes bits;
  std::memcpy(&bits, &value, sizeof(bits));
  Parts parts;
  round_to_bfloat16(value, &parts.hi);
  FloatLanes x, hi;
  std::memcpy(&x, &bits, sizeof(x));
  std::memcpy(&hi, &parts.hi, sizeof(hi));
  const FloatLanes rest = x - hi;
  std::memcpy(&parts.lo, &rest, sizeof(parts.lo));
  const UintLanes zero = bits & 0u;
  const auto special = (bits & 0x7f800000u) == 0x7f800000u;
  parts.lo = special ? zero : parts.lo;
  parts.finite = special ? zero : parts.hi;
  return parts;
}

TD_INLINE void store_part(std::uint16_t* to, const UintLanes& part, std::int64_t count) {
  const HalfLanes half = __builtin_convertvector(part >> 16, HalfLanes);
  std::memcpy(to, &half, static_cast<std::size_t>(count) * 2);
}
TD_INLINE void store_part(float* to, const UintLanes& part, std::int64_t count) {
  std::memcpy(to, &part, static_cast<std::size_t>(count) * 4);
}

template <class Element>
void split_as(const SplitJob& job) {
  const auto* src = static_cast<const std::uint16_t*>(job.src);
  std::int64_t i = 0;
  const auto step = [&](const std::uint16_t* from, std::int64_t count) __attribute__((always_inline)) {
    const Parts parts = split_lanes(load_half(from));
    store_part(static_cast<Element*>(job.hi) + i, parts.hi, count);
    store_part(static_cast<Element*>(job.lo) + i, parts.lo, count);
    store_part(static_cast<Element*>(job.finite) + i, parts.finite, count);
  };
  for (; i + kLanes <= job.n; i += kLanes) step(src + i, kLanes);
  if (i == job.n) return;
  std::uint16_t rest[kLanes] = {};
  std::memcpy(rest, src + i, static_cast<std::size_t>(job.n - i) * 2);
  step(rest, job.n - i);
}

void split(const SplitJob& job) {
  if (job.element == DType::kBF16)
    split_as<std::uint16_t>(job);
  else
    split_as<float>(job);
}

}  // namespace

const KernelTable& kernel_table() {
  static constexpr KernelTable kTable{Vec::kLanes, run_row, run_gradient, widen, narrow, split};
  return kTable;
}

}  // namespace tandem::TD_ISA_NAMESPACE

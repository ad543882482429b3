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

struct Parts {
  UintLanes hi, lo;  // BF16 bits
};

// See split.h for the definition and why both parts are exact.
TD_INLINE Parts split_lanes(Vec value) {
  UintLanes bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const UintLanes hi = bfloat16_bits(value);
  const UintLanes hi_bits = hi << 16;
  typedef float FloatLanes __attribute__((vector_size(Vec::kLanes * 4)));
  FloatLanes x, h;
  std::memcpy(&x, &bits, sizeof(x));
  std::memcpy(&h, &hi_bits, sizeof(h));
  const FloatLanes rest = x - h;  // exact
  UintLanes lo;
  std::memcpy(&lo, &rest, sizeof(lo));
  const UintLanes zero = bits & 0u;
  lo = (bits & 0x7f800000u) == 0x7f800000u ? zero : lo >> 16;
  return {hi, lo};
}

void split_to_bfloat16(const std::uint16_t* src, std::uint16_t* hi, std::uint16_t* lo, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const std::int64_t count = n - i < kLanes ? n - i : kLanes;
    std::uint16_t in[kLanes] = {};
    std::memcpy(in, src + i, static_cast<std::size_t>(count) * 2);
    const Parts parts = split_lanes(load_half(in));
    const HalfLanes high = __builtin_convertvector(parts.hi, HalfLanes);
    const HalfLanes low = __builtin_convertvector(parts.lo, HalfLanes);
    std::memcpy(hi + i, &high, static_cast<std::size_t>(count) * 2);
    std::memcpy(lo + i, &low, static_cast<std::size_t>(count) * 2);
  }
}

void split_to_float(const std::uint16_t* src, float* hi, float* lo, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const std::int64_t count = n - i < kLanes ? n - i : kLanes;
    std::uint16_t in[kLanes] = {};
    std::memcpy(in, src + i, static_cast<std::size_t>(count) * 2);
    const Parts parts = split_lanes(load_half(in));
    const UintLanes high = parts.hi << 16, low = parts.lo << 16;
    std::memcpy(hi + i, &high, static_cast<std::size_t>(count) * 4);
    std::memcpy(lo + i, &low, static_cast<std::size_t>(count) * 4);
  }
}

void split(DType element, const void* src, void* hi, void* lo, std::int64_t n) {
  const auto* half = static_cast<const std::uint16_t*>(src);
  if (element == DType::kBF16)
    split_to_bfloat16(half, static_cast<std::uint16_t*>(hi), static_cast<std::uint16_t*>(lo), n);
  else
    split_to_float(half, static_cast<float*>(hi), static_cast<float*>(lo), n);
}

}  // namespace

const KernelTable& kernel_table() {
  static constexpr KernelTable kTable{Vec::kLanes, run_row, run_gradient, widen, narrow, split};
  return kTable;
}

}  // namespace tandem::TD_ISA_NAMESPACE

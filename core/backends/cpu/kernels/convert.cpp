// Conversions of runs of elements, the FP16 split, and the table of this level's kernels.
#include "core/backends/cpu/kernels/kernel_table.h"
#include "core/backends/cpu/kernels/vec.h"

namespace tandem::TD_ISA_NAMESPACE {

void run_row(const RowJob& job);
void run_gradient(const GradientJob& job);

namespace {

constexpr std::int64_t kLanes = Vec::kLanes;

// Less than a vector, in pieces of fixed size: a call of memcpy costs more than the row of a few channels
// that this is for.
template <class T>
TD_INLINE void copy_rest(T* to, const T* from, std::int64_t n) {
#pragma GCC unroll 4
  for (std::int64_t piece = kLanes / 2; piece > 0; piece /= 2) {
    if ((n & piece) == 0) continue;
    std::memcpy(to, from, static_cast<std::size_t>(piece) * sizeof(T));
    to += piece;
    from += piece;
  }
}

// Calls step(src, dst) for the vectors of one row of n elements. The rest of the row is a whole vector too
// where `readable` elements of src and `writable` of dst allow that, else a padded copy: no scalar code, so
// that the last elements are rounded by the same instructions.
template <class From, class To, class Step>
TD_INLINE void for_vectors(const From* src, To* dst, std::int64_t n, std::int64_t readable,
                           std::int64_t writable, const Step& step) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) step(src + i, dst + i);
  if (i == n) return;
  To out[kLanes];
  To* to = i + kLanes <= writable ? dst + i : out;
  if (i + kLanes <= readable) {
    step(src + i, to);
  } else {
    From in[kLanes] = {};
    copy_rest(in, src + i, n - i);
    step(in, to);
  }
  if (to == out) copy_rest(dst + i, out, n - i);
}

// step over the rows of `job`. Rows that touch are one run. kPrivate: what lies between dst's rows is the
// caller's to spoil.
template <class From, class To, bool kPrivate, class Step>
TD_INLINE void for_rows(const CopyJob& job, const Step& step) {
  const auto* src = static_cast<const From*>(job.src);
  auto* dst = static_cast<To*>(job.dst);
  std::int64_t rows = job.rows, columns = job.columns;
  if (job.src_pitch == columns && job.dst_pitch == columns) {
    columns *= rows;
    rows = 1;
  }
  // Elements from a row's start to the end of the matrix. What a row writes too much in a dense matrix is the
  // next row's and written again by it.
  std::int64_t readable = (rows - 1) * job.src_pitch + columns,
               writable = (rows - 1) * job.dst_pitch + columns;
  const bool may_spill = kPrivate || job.dst_pitch == job.columns;
  for (std::int64_t r = 0; r < rows; ++r) {
    for_vectors(src, dst, columns, readable, may_spill ? writable : columns, step);
    src += job.src_pitch;
    dst += job.dst_pitch;
    readable -= job.src_pitch;
    writable -= job.dst_pitch;
  }
}

void widen(const CopyJob& job) {
  using U16 = std::uint16_t;
  if (job.dtype == DType::kF32)
    for_rows<float, float, true>(job, [](const float* s, float* d) { store(d, load(s)); });
  else if (job.dtype == DType::kF16)
    for_rows<U16, float, true>(job, [](const U16* s, float* d) { store(d, load_half(s)); });
  else
    for_rows<U16, float, true>(job, [](const U16* s, float* d) { store(d, load_bfloat16(s)); });
}

void narrow(const CopyJob& job) {
  using U16 = std::uint16_t;
  if (job.dtype == DType::kF32)
    for_rows<float, float, false>(job, [](const float* s, float* d) { store(d, load(s)); });
  else if (job.dtype == DType::kF16)
    for_rows<float, U16, false>(job, [](const float* s, U16* d) { store_half(d, load(s)); });
  else
    for_rows<float, U16, false>(job, [](const float* s, U16* d) { store_bfloat16(d, load(s)); });
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

TD_INLINE void store_part(std::uint16_t* to, const UintLanes& part) {
  const HalfLanes half = __builtin_convertvector(part >> 16, HalfLanes);
  std::memcpy(to, &half, sizeof(half));
}
TD_INLINE void store_part(float* to, const UintLanes& part) { std::memcpy(to, &part, sizeof(part)); }

// One vector: from[0..kLanes) to hi, lo, finite.
template <class Element>
TD_INLINE void split_vector(const std::uint16_t* from, Element* hi, Element* lo, Element* finite) {
  const Parts parts = split_lanes(load_half(from));
  store_part(hi, parts.hi);
  store_part(lo, parts.lo);
  store_part(finite, parts.finite);
}

template <class Element>
void split_as(const SplitJob& job) {
  const auto* src = static_cast<const std::uint16_t*>(job.src);
  auto* hi = static_cast<Element*>(job.hi);
  auto* lo = static_cast<Element*>(job.lo);
  auto* finite = static_cast<Element*>(job.finite);
  std::int64_t i = 0;
  for (; i + kLanes <= job.n; i += kLanes) split_vector(src + i, hi + i, lo + i, finite + i);
  if (i == job.n) return;
  std::uint16_t rest[kLanes] = {};
  Element parts[3][kLanes];
  copy_rest(rest, src + i, job.n - i);
  split_vector(rest, parts[0], parts[1], parts[2]);
  copy_rest(hi + i, parts[0], job.n - i);
  copy_rest(lo + i, parts[1], job.n - i);
  copy_rest(finite + i, parts[2], job.n - i);
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

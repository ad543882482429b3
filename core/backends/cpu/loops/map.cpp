// Elementwise maps: a functor of core/kernels/table.h over blocks of rows; and the conversions for other
// kernels.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/stage.h"
#include "core/kernels/table.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

constexpr std::int64_t kBlock = 2048;  // floats: 8 KiB an operand

template <class F>
inline void apply_functor(const float* const in[], float* out, std::int64_t n, const kernels::MapParams& p) {
  const float *a = in[0], *b = in[F::kArity > 1 ? 1 : 0], *c = in[F::kArity > 2 ? 2 : 0];
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (F::kArity == 1)
      out[i] = F::apply(a[i], p);
    else if constexpr (F::kArity == 2)
      out[i] = F::apply(a[i], b[i], p);
    else
      out[i] = F::apply(a[i], b[i], c[i], p);
  }
}

// At most two vectors of elements from `i` on.
template <class F, class T>
inline void map_piece(const T* const in[], T* out, std::int64_t i, std::int64_t n,
                      const kernels::MapParams& p) {
  alignas(64) float values[F::kArity][2 * kLanes];
  const float* staged[F::kArity];
  for (int k = 0; k < F::kArity; ++k) {
    convert(in[k] + i, values[k], n);
    staged[k] = values[k];
  }
  apply_functor<F>(staged, values[0], n, p);
  convert(values[0], out + i, n);
}

// n elements of T; out may be an input itself: each is read before it is written. 16-bit elements go through
// a few vectors of floats, which the compiler keeps in registers.
template <class F, class T>
void map_block(const void* const in[], void* out, std::int64_t n, const kernels::MapParams& params) {
  const kernels::MapParams p = params;
  const T* from[F::kArity];
  for (int k = 0; k < F::kArity; ++k) from[k] = static_cast<const T*>(in[k]);
  T* to = static_cast<T*>(out);
  if constexpr (sizeof(T) == sizeof(float)) {
    apply_functor<F>(from, to, n, p);
  } else {
    constexpr std::int64_t kPiece = 2 * kLanes;
    std::int64_t i = 0;
    for (; i + kPiece <= n; i += kPiece) map_piece<F>(from, to, i, kPiece, p);
    if (i < n) map_piece<F>(from, to, i, n - i, p);
  }
}

using BlockFunction = void (*)(const void* const in[], void* out, std::int64_t n,
                               const kernels::MapParams& params);
// By kernel, then F32, F16, BF16.
constexpr BlockFunction kBlockFunctions[][3] = {
#define TD_MAP_BLOCK(F) \
  {&map_block<kernels::F, float>, &map_block<kernels::F, Half>, &map_block<kernels::F, BFloat16>},
    TD_MAP_KERNELS(TD_MAP_BLOCK)
#undef TD_MAP_BLOCK
};

inline BlockFunction block_function(const MapLoop& loop, DType dtype) {
  return kBlockFunctions[static_cast<int>(loop.kernel)][dtype == DType::kF32   ? 0
                                                        : dtype == DType::kF16 ? 1
                                                                               : 2];
}

// A constant operand as a whole block: channels repeated for every row, or one value.
void fill_constant(const Matrix& m, OperandKind kind, std::int64_t channels, float* block) {
  float value = 0;
  if (kind == OperandKind::kSingle) widen(m.data, m.dtype, &value, 1);
  const std::int64_t period = kind == OperandKind::kSingle ? 1 : channels;
  if (kind == OperandKind::kSingle)
    block[0] = value;
  else
    widen(m.data, m.dtype, block, channels);
  for (std::int64_t i = period; i < kBlock; ++i) block[i] = block[i - period];
}

void map_rows(const MapLoop& loop, const float* const constant[], std::int64_t row, std::int64_t count) {
  alignas(64) float stage[kMapInputs][kBlock];
  alignas(64) float result[kBlock];
  const void* in[kMapInputs] = {};
  for (int k = 0; k < kMapInputs; ++k) {
    if (loop.in[k].data == nullptr) continue;
    in[k] = loop.kind[k] == OperandKind::kFull ? read_rows(loop.in[k], row, count, stage[k]) : constant[k];
  }
  const std::int64_t n = count * loop.out.channels;
  float* target = loop.accumulate ? result : target_rows(loop.out, row, result);
  block_function(loop, DType::kF32)(in, target, n, loop.params);
  if (loop.accumulate) {
    const float* old = read_rows(loop.out, row, count, stage[0]);
    for (std::int64_t i = 0; i < n; ++i) result[i] = old[i] + result[i];
  }
  finish_rows(loop.out, row, count, target);
}

// A copy without conversion moves bytes.
void copy_rows(const MapLoop& loop, std::int64_t row, std::int64_t count) {
  const std::int64_t bytes = loop.out.channels * element_bytes(loop.out.dtype);
  if (is_dense(loop.out) && is_dense(loop.in[0])) {
    __builtin_memmove(row_pointer(loop.out, row), row_pointer(loop.in[0], row),
                      static_cast<std::size_t>(count * bytes));
    return;
  }
  for (std::int64_t r = row; r < row + count; ++r)
    __builtin_memmove(row_pointer(loop.out, r), row_pointer(loop.in[0], r), static_cast<std::size_t>(bytes));
}

// Whether the operands are whole, dense and of one 16-bit type.
bool is_direct(const MapLoop& loop) {
  if (loop.accumulate || loop.out.dtype == DType::kF32 || !is_dense(loop.out)) return false;
  for (int k = 0; k < kMapInputs; ++k) {
    const Matrix& in = loop.in[k];
    const bool alike = loop.kind[k] == OperandKind::kFull && in.dtype == loop.out.dtype && is_dense(in);
    if (in.data != nullptr && !alike) return false;
  }
  return true;
}

void map_direct(const MapLoop& loop, std::int64_t row, std::int64_t count) {
  const void* in[kMapInputs] = {};
  for (int k = 0; k < kMapInputs; ++k)
    if (loop.in[k].data != nullptr) in[k] = row_pointer(loop.in[k], row);
  block_function(loop, loop.out.dtype)(in, row_pointer(loop.out, row), count * loop.out.channels,
                                       loop.params);
}

}  // namespace

// loop.out.channels <= 2048.
void map(const MapLoop& loop) {
  alignas(64) float block[kMapInputs][kBlock];
  const float* constant[kMapInputs];
  for (int k = 0; k < kMapInputs; ++k) {
    constant[k] = block[k];
    if (loop.in[k].data != nullptr && loop.kind[k] != OperandKind::kFull)
      fill_constant(loop.in[k], loop.kind[k], loop.out.channels, block[k]);
  }
  const bool is_copy = loop.kernel == MapKernel::kCopy && !loop.accumulate &&
                       loop.kind[0] == OperandKind::kFull && loop.in[0].dtype == loop.out.dtype;
  const bool direct = is_direct(loop);
  const std::int64_t rows_per_block = kBlock / loop.out.channels;
  for_chunks(loop.chunks, loop.threads, [&](const Chunk& chunk) {
    if (is_copy) return copy_rows(loop, chunk.first, chunk.end - chunk.first);
    if (direct) return map_direct(loop, chunk.first, chunk.end - chunk.first);
    for (std::int64_t row = chunk.first; row < chunk.end; row += rows_per_block)
      map_rows(loop, constant, row, chunk.end - row < rows_per_block ? chunk.end - row : rows_per_block);
  });
}

void map_floats(MapKernel kernel, const float* const in[], float* out, std::int64_t n,
                const kernels::MapParams& params) {
  const void* operands[kMapInputs] = {};
  int arity = 0;
  visit_map_kernel(kernel, [&]<class F>() { arity = F::kArity; });
  for (int k = 0; k < arity; ++k) operands[k] = in[k];
  kBlockFunctions[static_cast<int>(kernel)][0](operands, out, n, params);
}

void convert_to_float(const void* from, DType dtype, float* to, std::int64_t n) { widen(from, dtype, to, n); }
void convert_from_float(const float* from, void* to, DType dtype, std::int64_t n) {
  narrow(from, to, dtype, n);
}

}  // namespace tandem::TD_ISA_NAMESPACE

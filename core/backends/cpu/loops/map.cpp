// Elementwise maps: a functor of core/kernels/table.h over blocks of rows; and the conversions for other
// kernels.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/stage.h"
#include "core/kernels/table.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

constexpr std::int64_t kBlock = 2048;  // floats: 8 KiB an operand

template <class F>
inline void apply_functor(const float* a, const float* b, float* out, std::int64_t n,
                          const kernels::MapParams& p) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (F::kArity == 1)
      out[i] = F::apply(a[i], p);
    else
      out[i] = F::apply(a[i], b[i], p);
  }
}

// At most two vectors of elements.
template <class F, class T>
inline void map_piece(const T* a, const T* b, T* out, std::int64_t n, const kernels::MapParams& p) {
  alignas(64) float x[2 * kLanes], y[2 * kLanes];
  convert(a, x, n);
  if constexpr (F::kArity > 1) convert(b, y, n);
  apply_functor<F>(x, y, x, n, p);
  convert(x, out, n);
}

// n elements of T; out may be a or b themselves: each is read before it is written. 16-bit elements go
// through a few vectors of floats, which the compiler keeps in registers.
template <class F, class T>
void map_block(const void* a, const void* b, void* out, std::int64_t n, const kernels::MapParams& params) {
  const kernels::MapParams p = params;
  const T *from = static_cast<const T*>(a), *other = static_cast<const T*>(F::kArity > 1 ? b : a);
  T* to = static_cast<T*>(out);
  if constexpr (sizeof(T) == sizeof(float)) {
    apply_functor<F>(from, other, to, n, p);
  } else {
    constexpr std::int64_t kPiece = 2 * kLanes;
    std::int64_t i = 0;
    for (; i + kPiece <= n; i += kPiece) map_piece<F>(from + i, other + i, to + i, kPiece, p);
    if (i < n) map_piece<F>(from + i, other + i, to + i, n - i, p);
  }
}

using BlockFunction = void (*)(const void* a, const void* b, void* out, std::int64_t n,
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

void map_rows(const MapLoop& loop, const float* const constant[2], std::int64_t row, std::int64_t count) {
  alignas(64) float stage[2][kBlock];
  alignas(64) float result[kBlock];
  const float* in[2] = {nullptr, nullptr};
  for (int k = 0; k < 2; ++k) {
    if (loop.in[k].data == nullptr) continue;
    in[k] = loop.kind[k] == OperandKind::kFull ? read_rows(loop.in[k], row, count, stage[k]) : constant[k];
  }
  const std::int64_t n = count * loop.out.channels;
  float* target = loop.accumulate ? result : target_rows(loop.out, row, result);
  block_function(loop, DType::kF32)(in[0], in[1], target, n, loop.params);
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
  const Matrix& other = loop.in[1].data == nullptr ? loop.in[0] : loop.in[1];
  for (int k = 0; k < 2; ++k)
    if (loop.in[k].data != nullptr && loop.kind[k] != OperandKind::kFull) return false;
  return !loop.accumulate && common_type(loop.out, loop.in[0], other) != DType::kF32;
}

}  // namespace

// loop.out.channels <= 2048.
void map(const MapLoop& loop) {
  alignas(64) float block[2][kBlock];
  const float* constant[2] = {block[0], block[1]};
  for (int k = 0; k < 2; ++k)
    if (loop.in[k].data != nullptr && loop.kind[k] != OperandKind::kFull)
      fill_constant(loop.in[k], loop.kind[k], loop.out.channels, block[k]);
  const bool is_copy = loop.kernel == MapKernel::kCopy && !loop.accumulate &&
                       loop.kind[0] == OperandKind::kFull && loop.in[0].dtype == loop.out.dtype;
  const bool direct = is_direct(loop);
  const std::int64_t rows_per_block = kBlock / loop.out.channels;
  for_chunks(loop.chunks, loop.threads, [&](const Chunk& chunk) {
    if (is_copy) return copy_rows(loop, chunk.first, chunk.end - chunk.first);
    if (direct) {
      const void* other = loop.in[1].data == nullptr ? nullptr : row_pointer(loop.in[1], chunk.first);
      return block_function(loop, loop.out.dtype)(row_pointer(loop.in[0], chunk.first), other,
                                                  row_pointer(loop.out, chunk.first),
                                                  (chunk.end - chunk.first) * loop.out.channels, loop.params);
    }
    for (std::int64_t row = chunk.first; row < chunk.end; row += rows_per_block)
      map_rows(loop, constant, row, chunk.end - row < rows_per_block ? chunk.end - row : rows_per_block);
  });
}

void convert_to_float(const void* from, DType dtype, float* to, std::int64_t n) { widen(from, dtype, to, n); }
void convert_from_float(const float* from, void* to, DType dtype, std::int64_t n) {
  narrow(from, to, dtype, n);
}

}  // namespace tandem::TD_ISA_NAMESPACE

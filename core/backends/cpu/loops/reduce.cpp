// Sums over rows, and the gradient check: non-finite count and sum of squares.
#include "core/backends/cpu/loops/columns.h"
#include "core/backends/cpu/loops/entries.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

template <class T>
void reduce_chunk(const ReduceLoop& loop, const Chunk& chunk) {
  const Wide w = wide_of(loop.x.channels);
  alignas(64) float x_stage[kMaxBlock], y_stage[kMaxBlock], sums[kMaxWidth];
  double* partial = loop.partial + chunk.task * w.channels;
  for (std::int64_t c = 0; c < w.channels; ++c) partial[c] = 0;
  for_blocks(w, chunk, [&](std::int64_t row, std::int64_t count) {
    const T* x = read_rows_as<T>(loop.x, row, count, x_stage);
    if (loop.y.data == nullptr) {
      visit_columns<1>(
          w, count, [&]<class V>(std::int64_t i, std::int64_t, V* term) { term[0] = load<V>(x + i); }, sums);
    } else {
      const T* y = read_rows_as<T>(loop.y, row, count, y_stage);
      visit_columns<1>(
          w, count,
          [&]<class V>(std::int64_t i, std::int64_t, V* term) { term[0] = load<V>(x + i) * load<V>(y + i); },
          sums);
    }
    fold(w, sums, partial);
  });
}

inline DoubleVec widened(const float* p) {
  return __builtin_convertvector(*reinterpret_cast<const LooseHalfVec*>(p), DoubleVec);
}

struct CheckSum {
  std::int64_t nonfinite = 0;
  double squares = 0;
};

inline bool is_nonfinite(float x) { return (bits_of(x) & 0x7f800000u) == 0x7f800000u; }

CheckSum check_range(const float* g, std::int64_t n, float inverse) {
  constexpr int kHalf = kLanes / 2;
  DoubleVec squares[4] = {};
  IntVec bad = {};
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    for (int v = 0; v < 2; ++v) {
      const LooseIntVec bits = *reinterpret_cast<const LooseIntVec*>(g + i + v * kLanes);
      const Vec unscaled = load<Vec>(g + i + v * kLanes) * inverse;
      const IntVec of_unscaled = __builtin_bit_cast(IntVec, unscaled);
      bad -= ((bits & 0x7f800000) == 0x7f800000) | ((of_unscaled & 0x7f800000) == 0x7f800000);
    }
    for (int v = 0; v < 4; ++v) {
      const DoubleVec x = widened(g + i + v * kHalf);
      squares[v] += x * x;
    }
  }
  CheckSum sum;
  for (; i < n; ++i) {
    sum.nonfinite += is_nonfinite(g[i]) || is_nonfinite(g[i] * inverse);
    sum.squares += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  }
  const DoubleVec pairs = (squares[0] + squares[1]) + (squares[2] + squares[3]);
  for (int v = 0; v < kHalf; ++v) sum.squares += pairs[v];
  for (int v = 0; v < kLanes; ++v) sum.nonfinite += bad[v];
  return sum;
}

}  // namespace

void reduce_rows(const ReduceLoop& loop) {
  const Matrix& other = loop.y.data == nullptr ? loop.x : loop.y;
  with_type(common_type(loop.x, other, other), [&]<class T>() {
    for_chunks(loop.chunks, loop.threads, [&](const Chunk& chunk) { reduce_chunk<T>(loop, chunk); });
  });
}

void gradient_check(const CheckLoop& loop) {
  for_chunks(loop.chunks, loop.threads, [&](const Chunk& chunk) {
    const CheckSum sum = check_range(loop.gradient + chunk.first, chunk.end - chunk.first, loop.inverse);
    loop.counts[chunk.task] = sum.nonfinite;
    loop.squares[chunk.task] = sum.squares;
  });
}

}  // namespace tandem::TD_ISA_NAMESPACE

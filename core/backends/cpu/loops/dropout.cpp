// Dropout: the mask is drawn where it is used, block by block of four elements, so it depends on the
// element's place alone.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/stage.h"
#include "core/base/philox.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

constexpr std::int64_t kBlocks = 2 * kLanes;  // drawn together
constexpr std::int64_t kPiece = 4 * kBlocks;

// factor[i] = scale where element first + i stays, else 0; first is a multiple of 4.
inline void draw_factors(const DropoutLoop& loop, std::int64_t first, float* factor) {
  alignas(64) std::uint32_t word[4][kBlocks];
#pragma GCC ivdep
  for (std::int64_t b = 0; b < kBlocks; ++b) {
    std::uint32_t w[4] = {static_cast<std::uint32_t>(first / 4 + b), loop.counter[1], loop.counter[2],
                          loop.counter[3]};
    philox4x32_words(loop.key[0], loop.key[1], w);
    for (int k = 0; k < 4; ++k) word[k][b] = w[k];
  }
  for (std::int64_t b = 0; b < kBlocks; ++b)
    for (int k = 0; k < 4; ++k) factor[4 * b + k] = word[k][b] >= loop.threshold ? loop.scale : 0.0f;
}

template <class T>
void drop_chunk(const DropoutLoop& loop, const T* x, T* y, const Chunk& chunk) {
  alignas(64) float factor[kPiece], values[kPiece];
  for (std::int64_t i = chunk.first; i < chunk.end; i += kPiece) {
    const std::int64_t n = chunk.end - i < kPiece ? chunk.end - i : kPiece;
    draw_factors(loop, i, factor);
    convert(x + i, values, n);
    for (std::int64_t k = 0; k < n; ++k) values[k] = factor[k] == 0.0f ? 0.0f : values[k] * factor[k];
    convert(values, y + i, n);
  }
}

}  // namespace

// Chunks begin at multiples of 4.
void dropout(const DropoutLoop& loop) {
  with_type(loop.dtype, [&]<class T>() {
    for_chunks(loop.chunks, loop.threads, [&](const Chunk& chunk) {
      drop_chunk(loop, static_cast<const T*>(loop.x), static_cast<T*>(loop.y), chunk);
    });
  });
}

}  // namespace tandem::TD_ISA_NAMESPACE

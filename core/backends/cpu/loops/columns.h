// Loops over a dense block of rows with a constant or a sum per channel. Short rows are joined until their
// width is a whole number of vectors, and a column of vectors is walked down the rows with its sums in
// registers. Internal linkage.
#pragma once

#include "core/backends/cpu/loops/stage.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

constexpr int kUnroll = 4;
constexpr std::int64_t kGroup = kUnroll * kLanes;  // columns walked together
constexpr std::int64_t kMaxChannels = 512;         // per call; the caller cuts wider tensors
constexpr std::int64_t kMaxWidth = 2048;
constexpr std::int64_t kMaxBlock = 16384;  // floats of a staged block

// `repeat` rows of `channels` joined to one of `width`, and the rows of a block. Depends on channels alone.
struct Wide {
  std::int64_t channels, repeat, width, block_rows;
};

inline Wide wide_of(std::int64_t channels) {
  std::int64_t divisor = kGroup;
  while (channels % divisor != 0) divisor /= 2;
  Wide w;
  w.channels = channels;
  w.repeat = kGroup / divisor;
  if (channels * w.repeat > kMaxWidth) w.repeat = 1;
  w.width = channels * w.repeat;
  const std::int64_t rows = 4096 / channels > 32 ? 4096 / channels : 32;
  w.block_rows = (rows + w.repeat - 1) / w.repeat * w.repeat;
  return w;
}

// Runs body(row, count) over the blocks of a chunk.
template <class Body>
inline void for_blocks(const Wide& w, const Chunk& chunk, const Body& body) {
  for (std::int64_t row = chunk.first; row < chunk.end; row += w.block_rows)
    body(row, chunk.end - row < w.block_rows ? chunk.end - row : w.block_rows);
}

// A value per channel, repeated over the width.
inline void expand(const Wide& w, const float* per_channel, float* wide) {
  for (std::int64_t i = 0; i < w.channels; ++i) wide[i] = per_channel[i];
  for (std::int64_t i = w.channels; i < w.width; ++i) wide[i] = wide[i - w.channels];
}

// to[c] += the columns of channel c.
inline void fold(const Wide& w, const float* wide, double* to) {
  for (std::int64_t j = 0; j < w.width; j += w.channels)
    for (std::int64_t c = 0; c < w.channels; ++c) to[c] += static_cast<double>(wide[j + c]);
}

// Columns [col, col + U * lanes of V) of all whole wide rows; sums[k] in registers.
template <int K, int U, class V, class Terms>
inline void walk_columns(const Wide& w, std::int64_t rows, std::int64_t col, const Terms& terms,
                         float* sums) {
  constexpr std::int64_t kStep = sizeof(V) / sizeof(float);
  V acc[U][K > 0 ? K : 1] = {};
  for (std::int64_t r = 0; r < rows; ++r)
    for (int u = 0; u < U; ++u) {
      V term[K > 0 ? K : 1];
      terms.template operator()<V>(r * w.width + col + u * kStep, col + u * kStep, term);
      for (int k = 0; k < K; ++k) acc[u][k] += term[k];
    }
  for (int k = 0; k < K; ++k)
    for (int u = 0; u < U; ++u) store<V>(sums + k * kMaxWidth + col + u * kStep, acc[u][k]);
}

// Calls terms.operator()<V>(i, col, V* term) for every element of a block of `count` rows (i: index in the
// block, col: in the wide row) and sums the K terms over each column: sums[k * kMaxWidth + col]. K = 0 just
// visits.
template <int K, class Terms>
inline void visit_columns(const Wide& w, std::int64_t count, const Terms& terms, float* sums) {
  const std::int64_t elements = count * w.channels;
  const std::int64_t rows = elements / w.width, tail = elements % w.width;
  std::int64_t col = 0;
  for (; col + kGroup <= w.width; col += kGroup) walk_columns<K, kUnroll, Vec>(w, rows, col, terms, sums);
  for (; col + kLanes <= w.width; col += kLanes) walk_columns<K, 1, Vec>(w, rows, col, terms, sums);
  for (; col < w.width; ++col) walk_columns<K, 1, float>(w, rows, col, terms, sums);
  std::int64_t i = 0;
  const std::int64_t base = rows * w.width;
  for (; i + kLanes <= tail; i += kLanes) {
    Vec term[K > 0 ? K : 1];
    terms.template operator()<Vec>(base + i, i, term);
    for (int k = 0; k < K; ++k) {
      float* sum = sums + k * kMaxWidth + i;
      store<Vec>(sum, load<Vec>(sum) + term[k]);
    }
  }
  for (; i < tail; ++i) {
    float term[K > 0 ? K : 1];
    terms.template operator()<float>(base + i, i, term);
    for (int k = 0; k < K; ++k) sums[k * kMaxWidth + i] += term[k];
  }
}

}  // namespace
}  // namespace tandem::TD_ISA_NAMESPACE

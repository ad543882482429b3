// Sums over rows per channel, in two stages whose borders follow from the shape alone: chunks of rows by
// blocks, then the chunks' sums in double.
#pragma once

#include "core/backends/cuda/kernels/block.h"
#include "core/backends/cuda/kernels/elements.h"

namespace tandem::cuda {

// The rows lie in `runs` equal runs, a run in chunks; the channels in tiles of `width` (a power of two up to
// 32). One block per run, chunk and tile: block.index() = (run * chunks + chunk) * tiles + tile.
struct ColumnChunks {
  std::int64_t runs, rows_per_run, rows_per_chunk, chunks, channels, tiles;
  std::int32_t width;
};

// A thread's rows first, first + step, ... < end of one channel.
struct ColumnPlace {
  std::int64_t piece;  // run * chunks + chunk
  std::int64_t run, channel;
  std::int64_t begin, first, end, step;  // begin: the chunk's own first row
  bool active;                           // the channel exists
  bool writes;                           // for its column
};
TD_HD ColumnPlace column_place(const ColumnChunks& g, std::int64_t block, int thread) {
  const Place tile = split(block, g.tiles), chunk = split(tile.row, g.chunks);
  const int lane = thread / g.width;
  ColumnPlace at;
  at.piece = tile.row;
  at.run = chunk.row;
  at.channel = tile.column * g.width + thread % g.width;
  at.begin = chunk.row * g.rows_per_run + chunk.column * g.rows_per_chunk;
  const std::int64_t end = at.begin + g.rows_per_chunk, run_end = (chunk.row + 1) * g.rows_per_run;
  at.end = end < run_end ? end : run_end;
  at.first = at.begin + lane;
  at.step = kBlockThreads / g.width;
  at.active = at.channel < g.channels;
  at.writes = at.active && lane == 0;
  return at;
}

// partial[piece][channel] = sum of x (times y where it is there).
template <class T>
struct ColumnSums {
  ColumnChunks chunks;
  Elements<T> x, y;
  double* partial;

  struct Shared {
    float column[kBlockThreads];
  };
  template <class Block>
  TD_D void operator()(Block& block) const {
    const ColumnPlace at = column_place(chunks, block.index(), block.thread());
    float sum = 0;
    if (at.active)
      for (std::int64_t row = at.first; row < at.end; row += at.step) {
        const float value = x.read(row, at.channel);
        sum += y.data == nullptr ? value : value * y.read(row, at.channel);
      }
    sum = column_sum(block, block.shared().column, sum, chunks.width);
    if (at.writes) partial[at.piece * chunks.channels + at.channel] = static_cast<double>(sum);
  }
};

// Of partial [n][chunks][slots] the sum over chunks, one block per n and slot. Written to total [n][slots],
// or where that is null added to low[slot], and from slot `high_from` on to high[slot - high_from].
struct SumChunks {
  std::int64_t slots, chunks;
  const double* partial;
  double* total;
  float *low, *high;
  std::int64_t high_from;

  struct Shared {
    double warp[kBlockWarps];
  };
  template <class Block>
  TD_D void operator()(Block& block) const {
    const Place at = split(block.index(), slots);
    const double* first = partial + at.row * chunks * slots + at.column;
    double sum = 0;
    for (std::int64_t j = block.thread(); j < chunks; j += kBlockThreads) sum += first[j * slots];
    sum = block_sum(block, block.shared().warp, sum);
    if (block.thread() != 0) return;
    if (total != nullptr) {
      total[block.index()] = sum;
    } else {
      float* to = at.column < high_from ? low + at.column : high + (at.column - high_from);
      *to = static_cast<float>(static_cast<double>(*to) + sum);
    }
  }
};

}  // namespace tandem::cuda

// Blocks of rows transposed to one plane per channel, so that loops over few channels run over rows instead:
// softmax and the losses. A plane has block_rows floats, those past the rows read are 0. Internal linkage.
#pragma once

#include "core/backends/cpu/loops/stage.h"
#include "core/kernels/math.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

constexpr std::int64_t kMaxBlockRows = 256;

// One thread's scratch: `rows` for staging, `planes` for the block.
struct PlaneScratch {
  float *rows, *planes;
};

// A block of rows of a chunk.
struct PlaneBlock {
  std::int64_t task, sample, row, count;
  PlaneScratch scratch;
};

// Rows in use rounded up to whole vectors of any level; <= block_rows, which is a multiple of 16.
inline std::int64_t padded(std::int64_t count) { return (count + 15) / 16 * 16; }

inline void read_planes(const SoftmaxLoop& loop, const Matrix& m, const PlaneBlock& block) {
  const std::int64_t count = block.count;
  const float* rows = read_rows(m, block.row, count, block.scratch.rows);
  const std::int64_t channels = m.channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    float* plane = block.scratch.planes + c * loop.block_rows;
    for (std::int64_t r = 0; r < count; ++r) plane[r] = rows[r * channels + c];
    for (std::int64_t r = count; r < padded(count); ++r) plane[r] = 0;
  }
}

inline void write_planes(const SoftmaxLoop& loop, const Matrix& m, const PlaneBlock& block) {
  const std::int64_t count = block.count;
  float* rows = target_rows(m, block.row, block.scratch.rows);
  const std::int64_t channels = m.channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    const float* plane = block.scratch.planes + c * loop.block_rows;
    for (std::int64_t r = 0; r < count; ++r) rows[r * channels + c] = plane[r];
  }
  finish_rows(m, block.row, count, rows);
}

// highest[r] = maximum over the planes. A NaN may be passed over: its own exponential brings it into the sum.
inline void plane_maximum(const SoftmaxLoop& loop, const float* planes, std::int64_t n, float* highest) {
  for (std::int64_t r = 0; r < n; ++r) highest[r] = planes[r];
  for (std::int64_t c = 1; c < loop.x.channels; ++c) {
    const float* x = planes + c * loop.block_rows;
    for (std::int64_t r = 0; r < n; ++r) highest[r] = highest[r] >= x[r] ? highest[r] : x[r];
  }
}

// Runs body(block) for every block of every chunk.
template <class Body>
inline void for_plane_blocks(const SoftmaxLoop& loop, const Body& body) {
  const std::int64_t size = loop.x.channels * loop.block_rows;
  for_chunks(loop.chunks, loop.threads, [&](const Chunk& chunk) {
    float* mine = loop.scratch + chunk.slot * 2 * size;
    for (std::int64_t row = chunk.first; row < chunk.end; row += loop.block_rows) {
      const std::int64_t count = chunk.end - row < loop.block_rows ? chunk.end - row : loop.block_rows;
      body(PlaneBlock{chunk.task, chunk.sample, row, count, {mine, mine + size}});
    }
  });
}

}  // namespace
}  // namespace tandem::TD_ISA_NAMESPACE

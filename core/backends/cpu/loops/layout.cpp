// Values moved without arithmetic: transposition between storage and logical order, and blocks to volume.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/stage.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

constexpr std::int64_t kTile = 32;

// to[c, r] = from[r, c] for a tile of rows and columns.
template <class T>
void transpose_tile(const T* from, T* to, std::int64_t rows, std::int64_t columns, std::int64_t from_pitch,
                    std::int64_t to_pitch) {
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r) to[c * to_pitch + r] = from[r * from_pitch + c];
}

template <class T>
void transpose(const ReorderLoop& loop) {
  const std::int64_t tiles = (loop.rows + kTile - 1) / kTile;
  parallel_tasks(loop.batch * tiles, loop.threads, [&](std::int64_t task, int) {
    const std::int64_t row = task % tiles * kTile, size = loop.rows * loop.columns;
    const std::int64_t rows = loop.rows - row < kTile ? loop.rows - row : kTile;
    const T* from = static_cast<const T*>(loop.from) + task / tiles * size + row * loop.columns;
    T* to = static_cast<T*>(loop.to) + task / tiles * size + row;
    for (std::int64_t c = 0; c < loop.columns; c += kTile) {
      const std::int64_t count = loop.columns - c < kTile ? loop.columns - c : kTile;
      transpose_tile(from + c, to + c * loop.rows, rows, count, loop.columns, loop.rows);
    }
  });
}

// The elements [begin, begin + n) of one row.
inline Matrix run(const Matrix& m, std::int64_t row, std::int64_t begin, std::int64_t n) {
  Matrix part = columns(m, begin, n);
  part.data = static_cast<char*>(part.data) + row * m.pitch * element_bytes(m.dtype);
  part.rows = 1;
  return part;
}

constexpr std::int64_t kRun = 2048;  // floats

// One input voxel's run for one tap row: `stride_w` volume rows of `channels`.
void move_run(const DepthToSpaceLoop& loop, std::int64_t block_row, std::int64_t tap_row,
              std::int64_t volume_row) {
  alignas(64) float values[kRun];
  const std::int64_t all = loop.volume.channels, taps = loop.stride[2];
  for (std::int64_t tap = 0; tap < taps; ++tap)
    for (std::int64_t c = 0; c < all; c += kRun) {
      const std::int64_t n = all - c < kRun ? all - c : kRun;
      const Matrix block = run(loop.blocks, block_row, (tap_row * taps + tap) * all + c, n);
      const Matrix voxel = run(loop.volume, volume_row + tap, c, n);
      const Matrix& from = loop.inverse ? voxel : block;
      const Matrix& to = loop.inverse ? block : voxel;
      widen(from.data, from.dtype, values, n);
      if (!loop.inverse && loop.bias != nullptr)
        for (std::int64_t i = 0; i < n; ++i) values[i] += loop.bias[c + i];
      narrow(values, to.data, to.dtype, n);
    }
}

}  // namespace

void reorder(const ReorderLoop& loop) {
  if (loop.element_bytes == 8)
    transpose<std::uint64_t>(loop);
  else if (loop.element_bytes == 4)
    transpose<std::uint32_t>(loop);
  else if (loop.element_bytes == 2)
    transpose<std::uint16_t>(loop);
  else
    transpose<std::uint8_t>(loop);
}

// A task is one line of volume rows along w.
void depth_to_space(const DepthToSpaceLoop& loop) {
  const std::int64_t depth = loop.in[0] * loop.stride[0], height = loop.in[1] * loop.stride[1];
  parallel_tasks(loop.batch * depth * height, loop.threads, [&](std::int64_t line, int) {
    const std::int64_t y = line % height, z = line / height % depth, n = line / height / depth;
    const std::int64_t tap_row = z % loop.stride[0] * loop.stride[1] + y % loop.stride[1];
    const std::int64_t block_row =
        ((n * loop.in[0] + z / loop.stride[0]) * loop.in[1] + y / loop.stride[1]) * loop.in[2];
    const std::int64_t volume_row = line * loop.in[2] * loop.stride[2];
    for (std::int64_t x = 0; x < loop.in[2]; ++x)
      move_run(loop, block_row + x, tap_row, volume_row + x * loop.stride[2]);
  });
}

}  // namespace tandem::TD_ISA_NAMESPACE

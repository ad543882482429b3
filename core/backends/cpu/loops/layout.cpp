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

// to[i] = from[i] (+ bias[i]) for the channels of one voxel.
template <class From, class To>
inline void move_voxel(const From* from, To* to, const float* bias, std::int64_t channels) {
  std::int64_t c = 0;
  if (bias != nullptr) {
    for (; c + kLanes <= channels; c += kLanes) store<Vec>(to + c, load<Vec>(from + c) + load<Vec>(bias + c));
    for (; c < channels; ++c) store<float>(to + c, load<float>(from + c) + bias[c]);
    return;
  }
  convert(from, to, channels);
}

// One line of volume rows along w: for each input voxel the taps of one tap row.
template <class Block, class Voxel>
void move_line(const DepthToSpaceLoop& loop, std::int64_t block_row, std::int64_t tap_row,
               std::int64_t volume_row) {
  const std::int64_t channels = loop.volume.channels, taps = loop.stride[2];
  for (std::int64_t x = 0; x < loop.in[2]; ++x) {
    Block* block = static_cast<Block*>(loop.blocks.data) + (block_row + x) * loop.blocks.pitch +
                   tap_row * taps * channels;
    Voxel* voxel = static_cast<Voxel*>(loop.volume.data) + (volume_row + x * taps) * loop.volume.pitch;
    for (std::int64_t tap = 0; tap < taps; ++tap, block += channels, voxel += loop.volume.pitch) {
      if (loop.inverse)
        move_voxel(voxel, block, nullptr, channels);
      else
        move_voxel(block, voxel, loop.bias, channels);
    }
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
  with_type(loop.blocks.dtype, [&]<class Block>() {
    with_type(loop.volume.dtype, [&]<class Voxel>() {
      parallel_tasks(loop.batch * depth * height, loop.threads, [&](std::int64_t line, int) {
        const std::int64_t y = line % height, z = line / height % depth, n = line / height / depth;
        const std::int64_t tap_row = z % loop.stride[0] * loop.stride[1] + y % loop.stride[1];
        const std::int64_t block_row =
            ((n * loop.in[0] + z / loop.stride[0]) * loop.in[1] + y / loop.stride[1]) * loop.in[2];
        move_line<Block, Voxel>(loop, block_row, tap_row, line * loop.in[2] * loop.stride[2]);
      });
    });
  });
}

}  // namespace tandem::TD_ISA_NAMESPACE

// The row kernel on matrix tiles: BF16 operands in three parts (split.h), FP32 sums. Plain pointers, one
// thread.
#pragma once

#include <cstdint>

namespace tandem {

// One run of `length` products per part: a[p * plane + j * a_step + i] times b's element (p, i, n).
struct TileSegment {
  const std::uint16_t* a = nullptr;  // at voxel 0, of the first part
  const std::uint16_t* b = nullptr;  // packed as tile_offset says
};

// out[j][n] = init[n] + sum over segments, parts p and i < length of a[p * plane + j * a_step + i] * b(p, i,
// n), for voxels j and n < width. The parts of a are hi, lo, finite, those of b hi, finite, lo.
struct TileRowJob {
  const TileSegment* segments = nullptr;
  std::int64_t segment_count = 0, length = 0, a_step = 0, voxels = 0, plane = 0;
  bool is_finite = false;       // finite is hi on both sides: then only hi and lo are read
  int width = 0;                // 16 or 32
  const float* init = nullptr;  // [width]
  float* out = nullptr;         // [voxels][width]
};

inline constexpr int kTileParts = 3;      // of a value: split.h
inline constexpr int kTileColumns = 16;   // output channels of a tile
inline constexpr int kTileVoxels = 16;    // rows of a tile
inline constexpr int kTileProducts = 32;  // BF16 values in a row of a tile

// The two functions are static: a shared copy made for AMX must not run on a machine without.
//
// Products that a tile multiplies at a time: the greatest even divisor of `length` (even) up to
// kTileProducts.
static inline int tile_chunk(std::int64_t length) {
  for (std::int64_t chunks = (length + kTileProducts - 1) / kTileProducts;; ++chunks)
    if (length % chunks == 0 && length / chunks % 2 == 0) return static_cast<int>(length / chunks);
}

// Elements before those of (part, i, n) in a packed run: [chunk][part][columns / 16][pair of
// products][16][2].
static inline std::int64_t tile_offset(std::int64_t length, int width, int part, std::int64_t i, int n) {
  const std::int64_t chunk = tile_chunk(length), of_chunk = i % chunk;
  return (i / chunk * kTileParts + part) * chunk * width + n / kTileColumns * chunk * kTileColumns +
         of_chunk / 2 * 2 * kTileColumns + n % kTileColumns * 2 + of_chunk % 2;
}

// By AMX: the process must have asked for the tiles (isa.h).
void run_tile_row_amx(const TileRowJob& job);
// The same numbers but for the order of FP32 sums, on any machine: for tests.
void run_tile_row_portable(const TileRowJob& job);

}  // namespace tandem

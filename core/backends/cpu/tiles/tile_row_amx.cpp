// Two tiles of voxels by two of output channels in FP32 accumulators, over segments, chunks and parts.
#include <immintrin.h>

#include <algorithm>

#include "core/backends/cpu/tiles/tile_kernels.h"

namespace tandem {
namespace {

// Tiles 0 to 3: sums; 4, 5: voxels by products; 6, 7: products by output channels, in pairs.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

void configure(int voxels, int chunk) {
  TileConfig config;
  const auto set = [&](int tile, int rows, int bytes) {
    config.rows[tile] = static_cast<std::uint8_t>(rows);
    config.row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  };
  for (int tile = 0; tile < 4; ++tile) set(tile, voxels, 64);
  for (int tile = 4; tile < 6; ++tile) set(tile, voxels, 2 * chunk);
  for (int tile = 6; tile < 8; ++tile) set(tile, chunk / 2, 64);
  __asm__ volatile("" ::: "memory");  // the intrinsic of GCC names only the first bytes as read
  _tile_loadconfig(&config);
}

template <int kM, int kN>
void load_left(const std::uint16_t* first, const std::uint16_t* second, std::int64_t bytes) {
  _tile_loadd(4, first, bytes);
  if constexpr (kM == 2) _tile_loadd(5, second, bytes);
}

template <int kM, int kN>
void load_right(const std::uint16_t* b, std::int64_t tile) {
  _tile_loadd(6, b, 64);
  if constexpr (kN == 2) _tile_loadd(7, b + tile, 64);
}

template <int kM, int kN>
void add_products() {
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (kN == 2) _tile_dpbf16ps(1, 4, 7);
  if constexpr (kM == 2) _tile_dpbf16ps(2, 5, 6);
  if constexpr (kM == 2 && kN == 2) _tile_dpbf16ps(3, 5, 7);
}

template <int kM, int kN>
void multiply(const TileRowJob& job, int chunk, std::int64_t first, std::int64_t second) {
  _tile_loadd(0, job.init, 0);
  if constexpr (kN == 2) _tile_loadd(1, job.init + kTileColumns, 0);
  if constexpr (kM == 2) _tile_loadd(2, job.init, 0);
  if constexpr (kM == 2 && kN == 2) _tile_loadd(3, job.init + kTileColumns, 0);
  const std::int64_t bytes = 2 * job.a_step, tile = static_cast<std::int64_t>(chunk) * kTileColumns;
  for (std::int64_t s = 0; s < job.segment_count; ++s) {
    const std::uint16_t* b = job.segments[s].b;
    const std::uint16_t* a0 = job.segments[s].a + first * job.a_step;
    const std::uint16_t* a1 = job.segments[s].a + second * job.a_step;
    for (std::int64_t i = 0; i < job.length;
         i += chunk, a0 += chunk, a1 += chunk, b += kTileParts * kN * tile) {
      load_left<kM, kN>(a0, a1, bytes);
      load_right<kM, kN>(b, tile);
      add_products<kM, kN>();
      load_left<kM, kN>(a0 + job.plane, a1 + job.plane, bytes);
      if (!job.is_finite) load_right<kM, kN>(b + kN * tile, tile);
      add_products<kM, kN>();
      const std::int64_t finite = job.is_finite ? 0 : 2 * job.plane;
      load_right<kM, kN>(b + 2 * kN * tile, tile);
      load_left<kM, kN>(a0 + finite, a1 + finite, bytes);
      add_products<kM, kN>();
    }
  }
  const int out_bytes = 4 * job.width;
  float* out = job.out + first * job.width;
  _tile_stored(0, out, out_bytes);
  if constexpr (kN == 2) _tile_stored(1, out + kTileColumns, out_bytes);
  out = job.out + second * job.width;
  if constexpr (kM == 2) _tile_stored(2, out, out_bytes);
  if constexpr (kM == 2 && kN == 2) _tile_stored(3, out + kTileColumns, out_bytes);
}

template <int kN>
void run(const TileRowJob& job) {
  const std::int64_t count = (job.voxels + kTileVoxels - 1) / kTileVoxels;
  const std::int64_t height = (job.voxels + count - 1) / count;
  const int chunk = job.length > 0 ? tile_chunk(job.length) : 2;  // no taps: the sums are init
  configure(static_cast<int>(height), chunk);
  // The last tile ends with the row: it repeats a few voxels of the one before.
  const auto at = [&](std::int64_t tile) { return std::min(tile * height, job.voxels - height); };
  std::int64_t tile = 0;
  for (; tile + 2 <= count; tile += 2) multiply<2, kN>(job, chunk, at(tile), at(tile + 1));
  if (tile < count) multiply<1, kN>(job, chunk, at(tile), 0);
  _tile_release();
}

}  // namespace

void run_tile_row_amx(const TileRowJob& job) { job.width == kTileColumns ? run<1>(job) : run<2>(job); }

}  // namespace tandem

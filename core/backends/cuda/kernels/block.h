// What a block kernel sees of its block of threads, and sums over them in a fixed order. The block itself is
// the plug-in's or the emulator's; the kernels are the files beside.
//
// A grid functor has `std::int64_t count` and `void operator()(std::int64_t i) const` for 0 <= i < count, in
// any order. A block functor has a struct Shared of plain arrays and `template <class Block> void
// operator()(Block& block) const`, with
//   block.index()            number of the block, from 0
//   block.thread()           0 .. kBlockThreads - 1
//   block.shared()           the block's Shared, uninitialised
//   block.sync()             barrier: reached by all threads equally often
//   block.exchange(x, mask)  x of the thread whose number differs by the bits of mask < 32; by whole warps
// Channels are the fastest index: neighbouring threads read neighbouring channels.
#pragma once

#include <cstdint>

#include "core/base/host_device.h"

#if defined(__CUDACC__)
#define TD_D __device__ __forceinline__
#else
#define TD_D inline
#endif

namespace tandem::cuda {

inline constexpr int kWarpThreads = 32;
inline constexpr int kBlockThreads = 128;
inline constexpr int kBlockWarps = kBlockThreads / kWarpThreads;

// Over the `width` neighbouring threads (a power of two up to 32) that x's thread is of; all get the result.
template <class Block, class T>
TD_D T lane_sum(Block& block, T x, int width) {
  for (int mask = width / 2; mask > 0; mask /= 2) x += block.exchange(x, mask);
  return x;
}

// The greatest; NaN is left out.
template <class Block>
TD_D float lane_max(Block& block, float x, int width) {
  for (int mask = width / 2; mask > 0; mask /= 2) {
    const float other = block.exchange(x, mask);
    x = other > x ? other : x;
  }
  return x;
}

// Over the threads with the same thread() % width (a power of two up to 32); all get the result.
template <class Block, class T>
TD_D T column_sum(Block& block, T (&shared)[kBlockThreads], T x, int width) {
  for (int mask = width; mask < kWarpThreads; mask *= 2) x += block.exchange(x, mask);
  const int lane = block.thread() % kWarpThreads, warp = block.thread() / kWarpThreads;
  block.sync();  // `shared` may still be read
  if (lane < width) shared[warp * width + lane] = x;
  block.sync();
  T sum = 0;
  for (int w = 0; w < kBlockWarps; ++w) sum += shared[w * width + lane % width];
  return sum;
}

// Over all threads; all get the result.
template <class Block>
TD_D double block_sum(Block& block, double (&shared)[kBlockWarps], double x) {
  x = lane_sum(block, x, kWarpThreads);
  block.sync();  // `shared` may still be read
  if (block.thread() % kWarpThreads == 0) shared[block.thread() / kWarpThreads] = x;
  block.sync();
  double sum = 0;
  for (int w = 0; w < kBlockWarps; ++w) sum += shared[w];
  return sum;
}

}  // namespace tandem::cuda

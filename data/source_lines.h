// Logits of a cut or resampled case back on the grid of its source while the network's grid gets them slice
// by slice: two slices are held, never the volume. Where the slices come from is data/sliding_window.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor/tensor.h"
#include "data/resample.h"
#include "data/sliding_window.h"

namespace tandem {

// Linear along each axis (nearest along plan.separate): of finite values the same bits as
// resample_values(order 1) of the whole volume.
class SourceLines {
 public:
  // `take` gets each line [X, channels] of the source's grid once, from several threads. Voxels outside the
  // box of `placement` have the values `outside`, one per channel.
  SourceLines(const GridPlacement& placement, std::span<const float> outside, LineSink take);

  // Bytes of the slices that are held (exact, as the allocator counts them in MemoryCategory::kWorkspace);
  // beside them each thread has a few lines.
  static std::int64_t bytes(const GridPlacement& placement, std::int64_t channels);

  // A line of the slice in work on the network's grid, from any thread.
  void add(std::int64_t z, std::int64_t y, std::span<const float> logits);
  // Ends slice z: 0, 1, 2, ... Hands out the slices of the source that need no later one.
  void finish_slice(std::int64_t z);

 private:
  struct Room;
  static std::int64_t held_slices(const GridPlacement& placement);
  float* held_line(std::int64_t z, std::int64_t y) const;
  void hand_out(std::int64_t z);
  void fill(std::int64_t z, std::int64_t y, std::span<float> line, Room& room) const;
  std::span<const float> between_slices(std::int64_t z, std::int64_t y, std::vector<float>& room) const;

  GridPlacement placement_;
  std::int64_t channels_;
  std::vector<float> outside_;  // a line
  LineSink take_;
  std::array<std::vector<LinearPair>, 3> pairs_;
  std::array<bool, 3> blends_{};  // per axis: two neighbours, not the nearest alone
  Tensor slices_;                 // F32 [held slices, Y * X * channels]; slice z at z modulo their number
  std::int64_t next_ = 0;         // slice of the box that goes out next
};

}  // namespace tandem

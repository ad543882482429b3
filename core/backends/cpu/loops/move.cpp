// Boxes of elements moved between two tensors of any strides: crop, pad and transpose. Bytes alone matter.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/stage.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

constexpr std::int64_t kTile = 32;

// The last two axes: axis 1 is dense in `to`, axis 0 is dense in `from` or far in both. Tiles keep both sides
// in cache.
template <class T>
void move_plane(const MoveLoop& loop, const T* from, T* to, std::int64_t rows) {
  const std::int64_t *size = loop.size + loop.axes - 2, *in = loop.from_stride + loop.axes - 2,
                     *out = loop.to_stride + loop.axes - 2;
  for (std::int64_t a = 0; a < rows; a += kTile) {
    const std::int64_t a_end = a + kTile < rows ? a + kTile : rows;
    for (std::int64_t b = 0; b < size[1]; b += kTile) {
      const std::int64_t b_end = b + kTile < size[1] ? b + kTile : size[1];
      for (std::int64_t i = a; i < a_end; ++i)
        for (std::int64_t j = b; j < b_end; ++j) to[i * out[0] + j * out[1]] = from[i * in[0] + j * in[1]];
    }
  }
}

template <class T>
void move_all(const MoveLoop& loop) {
  const int outer = loop.axes - 2;
  const std::int64_t *in = loop.from_stride + outer, *out = loop.to_stride + outer;
  const bool is_run = in[1] == 1 && out[1] == 1;
  const std::int64_t pieces = (loop.size[outer] + loop.rows_per_task - 1) / loop.rows_per_task;
  std::int64_t tasks = pieces;
  for (int axis = 0; axis < outer; ++axis) tasks *= loop.size[axis];
  parallel_tasks(tasks, loop.threads, [&](std::int64_t task, int) {
    const std::int64_t row = task % pieces * loop.rows_per_task, left = loop.size[outer] - row;
    const std::int64_t rows = left < loop.rows_per_task ? left : loop.rows_per_task;
    std::int64_t from_at = loop.from_offset + row * in[0], to_at = loop.to_offset + row * out[0];
    std::int64_t place = task / pieces;
    for (int axis = outer; axis-- > 0; place /= loop.size[axis]) {
      from_at += place % loop.size[axis] * loop.from_stride[axis];
      to_at += place % loop.size[axis] * loop.to_stride[axis];
    }
    const T* from = static_cast<const T*>(loop.from) + from_at;
    T* to = static_cast<T*>(loop.to) + to_at;
    if (!is_run) return move_plane(loop, from, to, rows);
    for (std::int64_t i = 0; i < rows; ++i)
      __builtin_memcpy(to + i * out[0], from + i * in[0],
                       static_cast<std::size_t>(loop.size[outer + 1]) * sizeof(T));
  });
}

}  // namespace

void move(const MoveLoop& loop) {
  if (loop.element_bytes == 8)
    move_all<std::uint64_t>(loop);
  else if (loop.element_bytes == 4)
    move_all<std::uint32_t>(loop);
  else if (loop.element_bytes == 2)
    move_all<std::uint16_t>(loop);
  else
    move_all<std::uint8_t>(loop);
}

}  // namespace tandem::TD_ISA_NAMESPACE

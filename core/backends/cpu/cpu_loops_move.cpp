// Resize, dropout and moved boxes: tensors and tables unpacked for the level's loops.
#include <algorithm>

#include "core/backends/cpu/cpu_loops.h"
#include "core/backends/cpu/loop_views.h"

namespace tandem {
namespace {

using loop_views::float_matrix;

struct MoveAxis {
  std::int64_t size, from, to;
};

// The axes that count, by falling stride of the target, neighbours that lie densely on both sides joined.
std::vector<MoveAxis> joined_axes(const MoveArgs& args) {
  std::vector<MoveAxis> axes;
  for (int i = 0; i < args.rank; ++i) {
    const auto a = static_cast<std::size_t>(i);
    if (args.size[a] > 1) axes.push_back({args.size[a], args.from_stride[a], args.to_stride[a]});
  }
  std::ranges::stable_sort(axes, std::ranges::greater{}, &MoveAxis::to);
  for (std::size_t i = axes.size(); i-- > 1;) {
    MoveAxis &outer = axes[i - 1], &inner = axes[i];
    if (outer.from != inner.from * inner.size || outer.to != inner.to * inner.size) continue;
    outer = {outer.size * inner.size, inner.from, inner.to};
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
  while (axes.size() < 2) axes.insert(axes.begin(), {1, 0, 0});
  // Of a transposition the axis that is dense on the other side comes next to the last.
  if (axes.back().from != 1) {
    const auto dense = std::ranges::min_element(axes.begin(), axes.end() - 1, {}, [](const MoveAxis& a) {
      return a.size > 1 ? a.from : std::numeric_limits<std::int64_t>::max();
    });
    std::rotate(dense, dense + 1, axes.end() - 1);
  }
  return axes;
}

}  // namespace

void CpuLoops::move(const MoveArgs& args, const Tensor& x, const Tensor& y) const {
  for (int i = 0; i < args.rank; ++i)
    if (args.size[static_cast<std::size_t>(i)] == 0) return;
  MoveLoop loop{};
  loop.threads = compute_threads();
  loop.from = x.raw();
  loop.to = y.raw();
  loop.element_bytes = static_cast<std::int64_t>(size_of(x.dtype()));
  loop.from_offset = args.from_offset;
  loop.to_offset = args.to_offset;
  for (const MoveAxis& axis : joined_axes(args)) {
    loop.size[loop.axes] = axis.size;
    loop.from_stride[loop.axes] = axis.from;
    loop.to_stride[loop.axes++] = axis.to;
  }
  const std::int64_t inner = loop.size[loop.axes - 1];
  loop.rows_per_task =
      std::max<std::int64_t>(32, loop_views::kChunkElements / std::max<std::int64_t>(1, inner));
  table_->move(loop);
}

void CpuLoops::resize(const ResizeArgs& args, const Tensor& x, const Tensor& y) const {
  if (y.numel() == 0) return;
  ResizeLoop loop{};
  loop.threads = compute_threads();
  loop.adjoint = args.adjoint;
  loop.batch = y.shape().batch();
  loop.x = float_matrix(x);
  loop.y = float_matrix(y);
  for (std::size_t a = 0; a < 3; ++a) {
    const ResizeAxis& axis = (*args.axes)[a];
    loop.x_size[a] = x.shape().spatial()[a];
    loop.y_size[a] = y.shape().spatial()[a];
    loop.low[a] = axis.low.data();
    loop.high[a] = axis.high.data();
    loop.weight[a] = axis.weight.data();
    loop.begin[a] = axis.begin.data();
    loop.end[a] = axis.end.data();
  }
  table_->resize(loop);
}

void CpuLoops::dropout(const DropoutArgs& args, const Tensor& x, const Tensor& y) const {
  if (y.numel() == 0) return;
  float_matrix(x);  // its check of the dtype
  DropoutLoop loop{};
  loop.threads = compute_threads();
  loop.chunks = loop_views::chunks_of(1, x.numel(), 1);
  loop.x = x.raw();
  loop.y = y.raw();
  loop.dtype = x.dtype();
  for (std::size_t i = 0; i < 2; ++i) loop.key[i] = args.key[i];
  for (std::size_t i = 0; i < 4; ++i) loop.counter[i] = args.counter[i];
  loop.threshold = args.threshold;
  loop.scale = static_cast<float>(args.scale);
  table_->dropout(loop);
}

}  // namespace tandem

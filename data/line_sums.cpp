// The pool of lines, and the loops that add a window to it.
#include "data/line_sums.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/parallel.h"

namespace tandem {
namespace {

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

// For each index along an axis the last window that covers it.
std::vector<std::int64_t> last_windows(const WindowPlan& plan, std::size_t axis) {
  std::vector<std::int64_t> last(as_size(plan.shape[axis]), -1);
  for (std::size_t w = 0; w < plan.starts[axis].size(); ++w) {
    const std::int64_t begin = std::max<std::int64_t>(plan.starts[axis][w], 0);
    const std::int64_t end = std::min(plan.starts[axis][w] + plan.patch[axis], plan.shape[axis]);
    for (std::int64_t i = begin; i < end; ++i) last[as_size(i)] = static_cast<std::int64_t>(w);
  }
  return last;
}

// The lines (z, y) of a window that lie in the volume.
template <class Visit>
void for_each_line(const WindowPlan& plan, const Index3& begin, Visit&& visit) {
  const auto end_of = [&](std::size_t a) { return std::min(begin[a] + plan.patch[a], plan.shape[a]); };
  for (std::int64_t z = std::max<std::int64_t>(begin[0], 0); z < end_of(0); ++z)
    for (std::int64_t y = std::max<std::int64_t>(begin[1], 0); y < end_of(1); ++y) visit(z, y);
}

// Where a window stands in the grid of windows: its places along z and y, and whether it ends its row.
struct RowPlace {
  std::int64_t z = 0, y = 0;
  bool ends_row = false;
};
RowPlace row_of(const WindowPlan& plan, std::int64_t window) {
  const auto ny = static_cast<std::int64_t>(plan.starts[1].size());
  const auto nx = static_cast<std::int64_t>(plan.starts[2].size());
  return {window / nx / ny, window / nx % ny, (window + 1) % nx == 0};
}

// The lines that `window` is the last to hold back, in order of z and y; `last` per z and per y. By slices a
// line waits for the last row of windows of its slice.
template <class Visit>
void for_each_finished(const WindowPlan& plan, const std::array<std::vector<std::int64_t>, 2>& last,
                       std::int64_t window, Visit&& visit) {
  const RowPlace place = row_of(plan, window);
  if (!place.ends_row) return;
  if (!plan.by_slice)
    return for_each_line(plan, plan.begin_of(window), [&](std::int64_t z, std::int64_t y) {
      if (last[0][as_size(z)] == place.z && last[1][as_size(y)] == place.y) visit(z, y);
    });
  if (place.y + 1 < std::ssize(plan.starts[1])) return;
  for (std::int64_t z = 0; z < plan.shape[0]; ++z)
    for (std::int64_t y = 0; last[0][as_size(z)] == place.z && y < plan.shape[1]; ++y) visit(z, y);
}

template <class T>
float as_float(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<float>(value);
  else
    return to_float(value);
}

}  // namespace

std::int64_t LineSums::most_lines(const WindowPlan& plan) {
  const std::array last{last_windows(plan, 0), last_windows(plan, 1)};
  std::vector<std::uint8_t> begun(as_size(plan.shape[0] * plan.shape[1]), 0);
  const std::int64_t in_row = std::ssize(plan.starts[2]);  // windows of a row, which cover the same lines
  std::int64_t live = 0, most = 0, rows_begun = 0;
  for (std::int64_t first = 0; first < plan.count(); first += plan.batch_size) {
    const std::int64_t end = std::min(first + plan.batch_size, plan.count());
    for (; rows_begun * in_row < end; ++rows_begun)
      for_each_line(plan, plan.begin_of(rows_begun * in_row), [&](std::int64_t z, std::int64_t y) {
        std::uint8_t& state = begun[as_size(z * plan.shape[1] + y)];
        live += state == 0;
        state = 1;
      });
    most = std::max(most, live);
    for (std::int64_t w = (first / in_row + 1) * in_row - 1; w < end; w += in_row)
      for_each_finished(plan, last, w, [&](std::int64_t, std::int64_t) { --live; });
  }
  return most;
}

std::int64_t LineSums::bytes(const WindowPlan& plan, std::int64_t channels) {
  const auto size = static_cast<std::int64_t>(sizeof(float));
  return (most_lines(plan) * plan.shape[2] * (channels + 1) + voxel_count(plan.patch)) * size;
}

LineSums::LineSums(const WindowPlan& plan, std::int64_t classes, std::int64_t models,
                   std::span<const float> weights)
    : plan_(plan),
      classes_(classes),
      channels_(classes * models),
      last_{last_windows(plan, 0), last_windows(plan, 1)},
      slot_(as_size(plan.shape[0] * plan.shape[1]), -1) {
  const std::int64_t lines = most_lines(plan);
  const auto make = [](const Shape& shape) {
    return Tensor(shape, DType::kF32, kCpuDevice, MemoryCategory::kWorkspace);
  };
  sums_ = make({lines * plan.shape[2], channels_});
  totals_ = make({lines, plan.shape[2]});
  weights_ = make({1, voxel_count(plan.patch)});
  std::copy(weights.begin(), weights.end(), weights_.data<float>());
  for (std::int64_t i = lines; i-- > 0;) free_.push_back(i);
}

void LineSums::begin(const Index3& window) {
  const std::int64_t x = plan_.shape[2];
  for_each_line(plan_, window, [&](std::int64_t z, std::int64_t y) {
    std::int64_t& slot = slot_[as_size(line(z, y))];
    if (slot >= 0) return;
    check_internal(!free_.empty(), "sliding window: more lines than were counted");
    slot = free_.back();
    free_.pop_back();
    std::fill_n(sums_.data<float>() + slot * x * channels_, x * channels_, 0.0f);
    std::fill_n(totals_.data<float>() + slot * x, x, 0.0f);
  });
}

void LineSums::add(const WindowLogits& window) {
  switch (window.logits->dtype()) {
    case DType::kF32:
      return add_values<float>(window);
    case DType::kF64:
      return add_values<double>(window);
    case DType::kF16:
      return add_values<Half>(window);
    case DType::kBF16:
      return add_values<BFloat16>(window);
    default:
      fail(ErrorKind::kShape, "[predict] logits: got {}, expected a floating dtype",
           to_string(*window.logits));
  }
}

template <class T>
void LineSums::add_values(const WindowLogits& window) {
  const Index3& patch = plan_.patch;
  const Index3& begin = window.begin;
  const T* const logits = window.logits->data<T>() + window.sample * voxel_count(patch) * classes_;
  const bool counts_weights = window.model == 0 && window.mirrored == 0;
  const auto source = [&](std::int64_t i, std::size_t axis) {
    return (window.mirrored >> axis & 1u) != 0 ? patch[axis] - 1 - i : i;
  };
  const std::int64_t x_begin = std::max<std::int64_t>(0, -begin[2]);
  const std::int64_t x_end = std::min(patch[2], plan_.shape[2] - begin[2]);
  const auto add_line = [&](std::int64_t z, std::int64_t y) {
    const std::int64_t slot = slot_[as_size(line(z + begin[0], y + begin[1]))];
    const std::int64_t first = slot * plan_.shape[2] + begin[2];  // of the window's x = 0; may lie outside
    const T* const from = logits + (source(z, 0) * patch[1] + source(y, 1)) * patch[2] * classes_;
    const float* const weights = weights_.data<float>() + (z * patch[1] + y) * patch[2];
    for (std::int64_t x = x_begin; x < x_end; ++x) {
      if (counts_weights) totals_.data<float>()[first + x] += weights[x];
      const float weight = weights[x] * window.share;
      const T* const values = from + source(x, 2) * classes_;
      float* const target = sums_.data<float>() + (first + x) * channels_ + window.model * classes_;
      for (std::int64_t k = 0; k < classes_; ++k) target[k] += weight * as_float(values[k]);
    }
  };
  parallel_for(patch[0], 1, [&](std::int64_t z_begin, std::int64_t z_end) {
    for (std::int64_t z = z_begin; z < z_end; ++z) {
      if (z + begin[0] < 0 || z + begin[0] >= plan_.shape[0]) continue;
      for (std::int64_t y = 0; y < patch[1]; ++y)
        if (y + begin[1] >= 0 && y + begin[1] < plan_.shape[1]) add_line(z, y);
    }
  });
}

void LineSums::finish(std::int64_t window, const LineSink& sink, const SliceSink& after_slice) {
  std::vector<Line> lines;
  for_each_finished(plan_, last_, window, [&](std::int64_t z, std::int64_t y) { lines.push_back({z, y}); });
  if (!plan_.by_slice) return hand_out(lines, sink);
  const std::size_t slice = as_size(plan_.shape[1]);
  for (std::size_t first = 0; first < lines.size(); first += slice) {
    hand_out(std::span(lines).subspan(first, slice), sink);
    after_slice(lines[first][0]);
  }
}

void LineSums::hand_out(std::span<const Line> lines, const LineSink& sink) {
  const std::int64_t width = plan_.shape[2];
  parallel_for(static_cast<std::int64_t>(lines.size()), 1, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) {
      const auto [z, y] = lines[as_size(i)];
      const std::int64_t slot = slot_[as_size(line(z, y))];
      float* const sums = sums_.data<float>() + slot * width * channels_;
      const float* const totals = totals_.data<float>() + slot * width;
      for (std::int64_t x = 0; x < width; ++x)
        for (std::int64_t k = 0; k < channels_; ++k) sums[x * channels_ + k] /= totals[x];
      sink(z, y, {sums, as_size(width * channels_)});
    }
  });
  for (const auto& [z, y] : lines) {
    std::int64_t& slot = slot_[as_size(line(z, y))];
    free_.push_back(slot);
    slot = -1;
  }
}

}  // namespace tandem

// Weighted sums of logits for the lines of voxels (z, y) that windows have begun and not finished; a line's
// memory is used again once it is finished. Which windows there are is data/sliding_window.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor/tensor.h"
#include "data/sliding_window.h"

namespace tandem {

// One window's answer of one model.
struct WindowLogits {
  Index3 begin{};        // of the window, in the volume
  const Tensor* logits;  // [N, K, patch], packed, floating
  std::int64_t sample = 0;
  std::int64_t model = 0;
  unsigned mirrored = 0;  // bit a: the answer is mirrored along axis a (0 z, 1 y, 2 x)
  float share = 1;        // of the mean over mirrored copies
};

class LineSums {
 public:
  LineSums(const WindowPlan& plan, std::int64_t classes, std::int64_t models, std::span<const float> weights);

  // Lines that are begun and not finished, at most, when batches are added in the plan's order.
  static std::int64_t most_lines(const WindowPlan& plan);
  static std::int64_t bytes(const WindowPlan& plan, std::int64_t channels);

  // Makes room for the lines of a window that are not begun yet; before its first add().
  void begin(const Index3& window);
  // Adds logits * weight * share; weights are counted once, with the first model's unmirrored answer.
  void add(const WindowLogits& window);
  // Hands out the lines that no window after `window` touches, as means, and frees them; by slices those of
  // whole slices, each followed by `after_slice`.
  void finish(std::int64_t window, const LineSink& sink, const SliceSink& after_slice = {});

 private:
  using Line = std::array<std::int64_t, 2>;  // z, y
  void hand_out(std::span<const Line> lines, const LineSink& sink);
  template <class T>
  void add_values(const WindowLogits& window);
  std::int64_t line(std::int64_t z, std::int64_t y) const { return z * plan_.shape[1] + y; }

  WindowPlan plan_;
  std::int64_t classes_, channels_;
  std::array<std::vector<std::int64_t>, 2> last_;  // per z, per y: the last window start that covers it
  std::vector<std::int64_t> slot_;                 // per line: its place in sums_; -1: not begun or finished
  std::vector<std::int64_t> free_;
  Tensor sums_;     // F32 [lines * X, channels]
  Tensor totals_;   // F32 [lines, X]: sums of weights
  Tensor weights_;  // F32 [patch voxels]
};

}  // namespace tandem

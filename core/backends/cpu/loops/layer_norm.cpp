// Layer norm with the activation fused: a row is normalised by its own mean and variance over the channels.
// Two-pass, shifted; a block of rows lies in cache.
#include "core/backends/cpu/loops/entries.h"
#include "core/backends/cpu/loops/lanes.h"
#include "core/backends/cpu/loops/stage.h"
#include "core/kernels/table.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

// Sum over i < n of term.operator()<V>(i), in a fixed order.
template <class Term>
inline float row_sum(std::int64_t n, const Term& term) {
  Vec lanes[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int u = 0; u < 4; ++u) lanes[u] += term.template operator()<Vec>(i + u * kLanes);
  for (; i + kLanes <= n; i += kLanes) lanes[0] += term.template operator()<Vec>(i);
  float sum = sum_lanes((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]));
  for (; i < n; ++i) sum += term.template operator()<float>(i);
  return sum;
}

// Calls body.operator()<V>(i) for i < n.
template <class Body>
inline void row_visit(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body.template operator()<Vec>(i);
  for (; i < n; ++i) body.template operator()<float>(i);
}

// Rows of a block, and the thread's scratch for them: four of block_rows * channels floats, one of 2 *
// channels.
struct RowBlock {
  std::int64_t task, row, count;
  float *x, *dy, *out, *outer, *sums;
};

template <class Body>
void for_row_blocks(const LayerNormLoop& loop, const Body& body) {
  const std::int64_t size = loop.x.channels * loop.block_rows;
  for_chunks(loop.chunks, loop.threads, [&](const Chunk& chunk) {
    float* mine = loop.scratch + chunk.slot * (4 * size + 2 * loop.x.channels);
    for (std::int64_t row = chunk.first; row < chunk.end; row += loop.block_rows) {
      const std::int64_t left = chunk.end - row;
      body(RowBlock{chunk.task, row, left < loop.block_rows ? left : loop.block_rows, mine, mine + size,
                    mine + 2 * size, mine + 3 * size, mine + 4 * size});
    }
  });
}

// Mean and variance of one row: the second pass is around the first one's mean, whose rounding is undone.
inline void row_statistics(const float* x, std::int64_t n, float& mean, float& variance) {
  const float count = static_cast<float>(n);
  const float near_mean = row_sum(n, [&]<class V>(std::int64_t i) { return load<V>(x + i); }) / count;
  const float rest = row_sum(n, [&]<class V>(std::int64_t i) { return load<V>(x + i) - near_mean; }) / count;
  const float squares = row_sum(n, [&]<class V>(std::int64_t i) {
    const V d = load<V>(x + i) - near_mean;
    return d * d;
  });
  const float biased = squares / count - rest * rest;
  mean = near_mean + rest;
  variance = biased < 0.0f ? 0.0f : biased;
}

// z = xhat scale + shift of a row.
inline void row_argument(const LayerNormLoop& loop, const float* x, std::int64_t row, float* z) {
  const float mean = loop.mean[row], inv_std = loop.inv_std[row];
  row_visit(loop.x.channels, [&]<class V>(std::int64_t i) {
    const V xhat = (load<V>(x + i) - mean) * inv_std;
    store<V>(z + i, xhat * load<V>(loop.scale + i) + load<V>(loop.shift + i));
  });
}

void forward_block(const LayerNormLoop& loop, const RowBlock& block) {
  const std::int64_t n = loop.x.channels;
  const float* rows = read_rows(loop.x, block.row, block.count, block.x);
  float* target = target_rows(loop.y, block.row, block.out);
  for (std::int64_t r = 0; r < block.count; ++r) {
    const float* x = rows + r * n;
    float variance = 0;
    row_statistics(x, n, loop.mean[block.row + r], variance);
    loop.inv_std[block.row + r] = 1.0f / __builtin_sqrtf(variance + loop.eps);
    row_argument(loop, x, block.row + r, target + r * n);
  }
  if (loop.activation != Activation::kNone) {
    const float* argument[] = {target};
    map_floats(activation_kernel(loop.activation), argument, target, block.count * n, loop.params);
  }
  finish_rows(loop.y, block.row, block.count, target);
}

// With g = dy activation'(z) and h = g scale: dx = inv_std (h - mean(h) - xhat mean(h xhat)).
void backward_block(const LayerNormLoop& loop, const RowBlock& block) {
  const std::int64_t n = loop.x.channels;
  const float* rows = read_rows(loop.x, block.row, block.count, block.x);
  const float* gradients = read_rows(loop.dy, block.row, block.count, block.dy);
  float *target = target_rows(loop.y, block.row, block.out), *dshift = block.sums, *dscale = block.sums + n;
  for (std::int64_t i = 0; i < 2 * n; ++i) block.sums[i] = 0;
  if (loop.activation != Activation::kNone) {
    for (std::int64_t r = 0; r < block.count; ++r)
      row_argument(loop, rows + r * n, block.row + r, block.outer + r * n);
    const float* operands[] = {gradients, block.outer};
    map_floats(activation_gradient_kernel(loop.activation), operands, block.outer, block.count * n,
               loop.params);
    gradients = block.outer;
  }
  for (std::int64_t r = 0; r < block.count; ++r) {
    const float *x = rows + r * n, *dy = gradients + r * n;
    float* dx = target + r * n;
    const float mean = loop.mean[block.row + r], inv_std = loop.inv_std[block.row + r];
    row_visit(n, [&]<class V>(std::int64_t i) {
      const V xhat = (load<V>(x + i) - mean) * inv_std, scale = load<V>(loop.scale + i);
      const V g = load<V>(dy + i);
      store<V>(dshift + i, load<V>(dshift + i) + g);
      store<V>(dscale + i, load<V>(dscale + i) + g * xhat);
      store<V>(dx + i, g * scale);
    });
    const float mean_h =
        row_sum(n, [&]<class V>(std::int64_t i) { return load<V>(dx + i); }) / static_cast<float>(n);
    const float mean_hx =
        row_sum(n, [&]<class V>(
                       std::int64_t i) { return load<V>(dx + i) * ((load<V>(x + i) - mean) * inv_std); }) /
        static_cast<float>(n);
    row_visit(n, [&]<class V>(std::int64_t i) {
      const V xhat = (load<V>(x + i) - mean) * inv_std;
      store<V>(dx + i, ((load<V>(dx + i) - mean_h) - xhat * mean_hx) * inv_std);
    });
  }
  double* partial = loop.partial + block.task * 2 * n;
  for (std::int64_t i = 0; i < 2 * n; ++i) partial[i] += static_cast<double>(block.sums[i]);
  finish_rows(loop.y, block.row, block.count, target);
}

}  // namespace

// y = activation((x - mean) * inv_std * scale + shift); mean and inv_std per row are written.
void layer_norm_forward(const LayerNormLoop& loop) {
  for_row_blocks(loop, [&](const RowBlock& block) { forward_block(loop, block); });
}

// y is dx. partial[chunk] = sum of g[channels], then sum of g * xhat[channels].
void layer_norm_backward(const LayerNormLoop& loop) {
  const std::int64_t tasks = loop.chunks.samples * loop.chunks.per_sample;
  for (std::int64_t i = 0; i < tasks * 2 * loop.x.channels; ++i) loop.partial[i] = 0;
  for_row_blocks(loop, [&](const RowBlock& block) { backward_block(loop, block); });
}

}  // namespace tandem::TD_ISA_NAMESPACE

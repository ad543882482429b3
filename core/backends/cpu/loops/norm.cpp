// Batch, group and instance norm with the activation fused: statistics per run of rows and channel,
// application, and the two passes of the backward. Layer norm is in layer_norm.cpp. Statistics are two-pass
// within a block that lies in cache, blocks are merged in double (Chan et al. 1979).
#include "core/backends/cpu/loops/columns.h"
#include "core/backends/cpu/loops/entries.h"
#include "core/kernels/table.h"

namespace tandem::TD_ISA_NAMESPACE {
namespace {

// Mean and sum of squared deviations of the rows seen so far, per channel.
struct Moments {
  double rows = 0;
  double *mean, *deviation;
};

// Adds a block of `count` rows to the moments.
template <class T>
void add_block(const Wide& w, const T* x, std::int64_t count, Moments& moments) {
  alignas(64) float sums[2 * kMaxWidth];
  alignas(64) float pivot[kMaxWidth];
  double total[2][kMaxChannels] = {};
  float near_mean[kMaxChannels];
  const double n = static_cast<double>(count);
  visit_columns<1>(
      w, count, [&]<class V>(std::int64_t i, std::int64_t, V* term) { term[0] = load<V>(x + i); }, sums);
  fold(w, sums, total[0]);
  for (std::int64_t c = 0; c < w.channels; ++c) {
    near_mean[c] = static_cast<float>(total[0][c] / n);
    total[0][c] = 0;
  }
  expand(w, near_mean, pivot);
  visit_columns<2>(
      w, count,
      [&]<class V>(std::int64_t i, std::int64_t col, V* term) {
        const V d = load<V>(x + i) - load<V>(pivot + col);
        term[0] = d;
        term[1] = d * d;
      },
      sums);
  fold(w, sums, total[0]);
  fold(w, sums + kMaxWidth, total[1]);
  const double all = moments.rows + n, share = n / all, cross = moments.rows * share;
  for (std::int64_t c = 0; c < w.channels; ++c) {
    const double shift = total[0][c] / n;
    const double delta = static_cast<double>(near_mean[c]) + shift - moments.mean[c];
    moments.mean[c] += delta * share;
    moments.deviation[c] += total[1][c] - total[0][c] * shift + delta * delta * cross;
  }
  moments.rows = all;
}

// f(z) of the fused activation and dy * f'(z).
template <Activation kActivation, class V>
inline V activate(V z, float slope) {
  if constexpr (kActivation == Activation::kRelu) return z < V{} ? V{} : z;
  if constexpr (kActivation == Activation::kLeakyRelu) return z < V{} ? slope * z : z;
  return z;
}
template <Activation kActivation, class V>
inline V activation_gradient(V dy, V z, float slope) {
  if constexpr (kActivation == Activation::kRelu) return z <= V{} ? V{} : dy;
  if constexpr (kActivation == Activation::kLeakyRelu) return z <= V{} ? slope * dy : dy;
  return dy;
}

// ReLU and its kin are applied in registers, the others to a block in cache: their loops are map.cpp's.
inline bool is_fused(Activation activation) {
  return activation == Activation::kNone || activation == Activation::kRelu ||
         activation == Activation::kLeakyRelu;
}

template <Activation kActivation, class T>
void apply_chunk(const NormLoop& loop, const Chunk& chunk) {
  const Wide w = wide_of(loop.x.channels);
  const float slope = static_cast<float>(loop.params.a);
  alignas(64) float in[kMaxBlock], out[kMaxBlock];
  alignas(64) float center[kMaxWidth], factor[kMaxWidth], offset[kMaxWidth];
  const std::int64_t at = chunk.sample * w.channels;
  expand(w, loop.center + at, center);
  expand(w, loop.factor + at, factor);
  expand(w, loop.offset + at, offset);
  for_blocks(w, chunk, [&](std::int64_t row, std::int64_t count) {
    const T* x = read_rows_as<T>(loop.x, row, count, in);
    T* y = target_rows_as<T>(loop.y, row, out);
    visit_columns<0>(
        w, count,
        [&]<class V>(std::int64_t i, std::int64_t col, V*) {
          const V z =
              (load<V>(x + i) - load<V>(center + col)) * load<V>(factor + col) + load<V>(offset + col);
          store<V>(y + i, activate<kActivation>(z, slope));
        },
        nullptr);
    if constexpr (sizeof(T) == sizeof(float))
      if (!is_fused(loop.activation)) {
        const float* argument[] = {y};
        map_floats(activation_kernel(loop.activation), argument, y, count * w.channels, loop.params);
      }
    finish_rows_as<T>(loop.y, row, count, y);
  });
}

// The per-channel constants of the backward passes over the width.
struct BackwardConstants {
  float center[kMaxWidth], inv_std[kMaxWidth], scale[kMaxWidth], shift[kMaxWidth];
};

void expand_constants(const NormLoop& loop, const Wide& w, std::int64_t sample, BackwardConstants& k) {
  const std::int64_t at = sample * w.channels;
  expand(w, loop.center + at, k.center);
  expand(w, loop.inv_std + at, k.inv_std);
  expand(w, loop.scale, k.scale);
  expand(w, loop.shift, k.shift);
}

// dy, or for an activation that is not fused its product with the activation's derivative, in `stage`.
template <class T>
const T* outer_gradient(const NormLoop& loop, const BackwardConstants& k, const T* x, const T* dy,
                        std::int64_t count, float* stage) {
  if constexpr (sizeof(T) == sizeof(float))
    if (!is_fused(loop.activation)) {
      visit_columns<0>(
          wide_of(loop.x.channels), count,
          [&]<class V>(std::int64_t i, std::int64_t col, V*) {
            const V xhat = (load<V>(x + i) - load<V>(k.center + col)) * load<V>(k.inv_std + col);
            store<V>(stage + i, xhat * load<V>(k.scale + col) + load<V>(k.shift + col));
          },
          nullptr);
      const float* operands[] = {dy, stage};
      map_floats(activation_gradient_kernel(loop.activation), operands, stage, count * loop.x.channels,
                 loop.params);
      return stage;
    }
  return dy;
}

template <Activation kActivation, class T>
void backward_sums_chunk(const NormLoop& loop, const Chunk& chunk) {
  const Wide w = wide_of(loop.x.channels);
  const float slope = static_cast<float>(loop.params.a);
  alignas(64) float x_stage[kMaxBlock], dy_stage[kMaxBlock], outer[kMaxBlock], sums[2 * kMaxWidth];
  BackwardConstants k;
  expand_constants(loop, w, chunk.sample, k);
  double* partial = loop.partial + chunk.task * 2 * w.channels;
  for (std::int64_t c = 0; c < 2 * w.channels; ++c) partial[c] = 0;
  for_blocks(w, chunk, [&](std::int64_t row, std::int64_t count) {
    const T* x = read_rows_as<T>(loop.x, row, count, x_stage);
    const T* dy = outer_gradient(loop, k, x, read_rows_as<T>(loop.dy, row, count, dy_stage), count, outer);
    visit_columns<2>(
        w, count,
        [&]<class V>(std::int64_t i, std::int64_t col, V* term) {
          const V xhat = (load<V>(x + i) - load<V>(k.center + col)) * load<V>(k.inv_std + col);
          const V z = xhat * load<V>(k.scale + col) + load<V>(k.shift + col);
          const V g = activation_gradient<kActivation>(load<V>(dy + i), z, slope);
          term[0] = g;
          term[1] = g * xhat;
        },
        sums);
    fold(w, sums, partial);
    fold(w, sums + kMaxWidth, partial + w.channels);
  });
}

template <Activation kActivation, class T>
void backward_apply_chunk(const NormLoop& loop, const Chunk& chunk) {
  const Wide w = wide_of(loop.x.channels);
  const float slope = static_cast<float>(loop.params.a);
  alignas(64) float x_stage[kMaxBlock], dy_stage[kMaxBlock], outer[kMaxBlock], out[kMaxBlock];
  alignas(64) float constant[kMaxWidth], linear[kMaxWidth], factor[kMaxWidth];
  BackwardConstants k;
  expand_constants(loop, w, chunk.sample, k);
  const std::int64_t at = chunk.sample * w.channels;
  expand(w, loop.constant + at, constant);
  expand(w, loop.linear + at, linear);
  expand(w, loop.factor + at, factor);
  for_blocks(w, chunk, [&](std::int64_t row, std::int64_t count) {
    const T* x = read_rows_as<T>(loop.x, row, count, x_stage);
    const T* dy = outer_gradient(loop, k, x, read_rows_as<T>(loop.dy, row, count, dy_stage), count, outer);
    T* dx = target_rows_as<T>(loop.y, row, out);
    visit_columns<0>(
        w, count,
        [&]<class V>(std::int64_t i, std::int64_t col, V*) {
          const V xhat = (load<V>(x + i) - load<V>(k.center + col)) * load<V>(k.inv_std + col);
          const V z = xhat * load<V>(k.scale + col) + load<V>(k.shift + col);
          const V g = activation_gradient<kActivation>(load<V>(dy + i), z, slope);
          store<V>(dx + i,
                   g * load<V>(factor + col) - (load<V>(constant + col) + xhat * load<V>(linear + col)));
        },
        nullptr);
    finish_rows_as<T>(loop.y, row, count, dx);
  });
}

// Calls body.operator()<kActivation, T>() for the loop's activation and element type; kNone and float where
// the activation is not fused.
template <class Body>
inline void with_activation(Activation activation, DType type, const Body& body) {
  if (!is_fused(activation)) return body.template operator()<Activation::kNone, float>();
  with_type(type, [&]<class T>() {
    if (activation == Activation::kRelu)
      body.template operator()<Activation::kRelu, T>();
    else if (activation == Activation::kLeakyRelu)
      body.template operator()<Activation::kLeakyRelu, T>();
    else
      body.template operator()<Activation::kNone, T>();
  });
}

}  // namespace

// partial[sample][chunk] = mean[channels], then sum of squared deviations[channels], of x over the chunk.
void norm_statistics(const NormLoop& loop) {
  with_type(common_type(loop.x, loop.x, loop.x), [&]<class T>() {
    for_chunks(loop.chunks, loop.threads, [&](const Chunk& chunk) {
      const Wide w = wide_of(loop.x.channels);
      alignas(64) float stage[kMaxBlock];
      double* partial = loop.partial + chunk.task * 2 * w.channels;
      for (std::int64_t c = 0; c < 2 * w.channels; ++c) partial[c] = 0;
      Moments moments{0, partial, partial + w.channels};
      for_blocks(w, chunk, [&](std::int64_t row, std::int64_t count) {
        add_block(w, read_rows_as<T>(loop.x, row, count, stage), count, moments);
      });
    });
  });
}

// y = activation((x - center) * factor + offset).
void norm_apply(const NormLoop& loop) {
  with_activation(loop.activation, common_type(loop.x, loop.y, loop.y),
                  [&]<Activation kActivation, class T>() {
                    for_chunks(loop.chunks, loop.threads,
                               [&](const Chunk& chunk) { apply_chunk<kActivation, T>(loop, chunk); });
                  });
}

// partial[sample][chunk] = sum of g[channels], then sum of g * xhat[channels], with g = dy * activation'(z),
// xhat = (x - center) * inv_std, z = xhat * scale + shift.
void norm_backward_sums(const NormLoop& loop) {
  with_activation(loop.activation, common_type(loop.x, loop.dy, loop.dy),
                  [&]<Activation kActivation, class T>() {
                    for_chunks(loop.chunks, loop.threads,
                               [&](const Chunk& chunk) { backward_sums_chunk<kActivation, T>(loop, chunk); });
                  });
}

// y (dx) = g * factor - (constant + xhat * linear), factor = scale * inv_std.
void norm_backward_apply(const NormLoop& loop) {
  with_activation(
      loop.activation, common_type(loop.x, loop.dy, loop.y), [&]<Activation kActivation, class T>() {
        for_chunks(loop.chunks, loop.threads,
                   [&](const Chunk& chunk) { backward_apply_chunk<kActivation, T>(loop, chunk); });
      });
}

}  // namespace tandem::TD_ISA_NAMESPACE

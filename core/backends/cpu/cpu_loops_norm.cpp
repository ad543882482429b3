// Instance norm: chunks' moments merged in double, the per-channel coefficients of the level's loops.
#include <cmath>
#include <vector>

#include "core/backends/cpu/cpu_loops.h"
#include "core/backends/cpu/loop_views.h"

namespace tandem {
namespace {

using loop_views::float_matrix, loop_views::slice;

// Channels [first, first + count) of one call; values per (sample, channel) are packed [samples, count].
struct ChannelPart {
  std::int64_t samples, channels, first, count;
  std::int64_t whole(std::int64_t n, std::int64_t c) const { return n * channels + first + c; }
  std::int64_t packed(std::int64_t n, std::int64_t c) const { return n * count + c; }
  std::vector<float> values() const { return std::vector<float>(static_cast<std::size_t>(samples * count)); }
};

struct Moments {
  double mean = 0, deviation = 0, rows = 0;
};

// Moments of channel c of sample n over all chunks (Chan et al. 1979).
Moments merged(const NormLoop& loop, const ChannelPart& part, std::int64_t n, std::int64_t c) {
  Moments all;
  const Chunks& chunks = loop.chunks;
  for (std::int64_t chunk = 0; chunk < chunks.per_sample; ++chunk) {
    const double* partial = loop.partial + (n * chunks.per_sample + chunk) * 2 * part.count;
    const double rows = static_cast<double>(
        std::min(chunks.rows_per_chunk, chunks.rows_per_sample - chunk * chunks.rows_per_chunk));
    const double total = all.rows + rows, delta = partial[c] - all.mean;
    all.mean += delta * (rows / total);
    all.deviation += partial[part.count + c] + delta * delta * (all.rows * (rows / total));
    all.rows = total;
  }
  return all;
}

struct Sums {
  double g = 0, gx = 0;
};

Sums summed(const NormLoop& loop, const ChannelPart& part, std::int64_t n, std::int64_t c) {
  Sums all;
  for (std::int64_t chunk = 0; chunk < loop.chunks.per_sample; ++chunk) {
    const double* partial = loop.partial + (n * loop.chunks.per_sample + chunk) * 2 * part.count;
    all.g += partial[c];
    all.gx += partial[part.count + c];
  }
  return all;
}

NormLoop norm_loop(const NormArgs& args, const NormTensors& t, const ChannelPart& part, const Matrix& x) {
  NormLoop loop{};
  loop.threads = compute_threads();
  loop.activation = args.activation;
  loop.slope = static_cast<float>(args.slope);
  loop.chunks = loop_views::chunks_of(part.samples, x.rows, part.count);
  loop.x = slice(x, part.first, part.count);
  loop.scale = t.scale.data<float>() + part.first;
  loop.shift = t.shift.data<float>() + part.first;
  return loop;
}

}  // namespace

void CpuLoops::norm_forward(const NormArgs& args, const Tensor& x, const NormTensors& t,
                            const Tensor& y) const {
  if (x.numel() == 0) return;
  const Matrix mx = float_matrix(x), my = float_matrix(y);
  loop_views::for_channels(
      mx.channels, loop_views::kNarrowChannels, [&](std::int64_t first, std::int64_t count) {
        const ChannelPart part{x.shape().batch(), mx.channels, first, count};
        NormLoop loop = norm_loop(args, t, part, mx);
        const auto partial = loop_views::scratch<double>(loop_views::count(loop.chunks) * 2 * count);
        loop.partial = partial.get();
        table_->norm_statistics(loop);
        std::vector<float> center = part.values(), factor = part.values(), offset = part.values();
        for (std::int64_t n = 0; n < part.samples; ++n)
          for (std::int64_t c = 0; c < count; ++c) {
            const Moments m = merged(loop, part, n, c);
            const double inv_std = 1 / std::sqrt(m.deviation / m.rows + args.eps);
            const float mean = static_cast<float>(m.mean);
            t.mean.data<float>()[part.whole(n, c)] = mean;
            t.inv_std.data<float>()[part.whole(n, c)] = static_cast<float>(inv_std);
            const double slope = inv_std * static_cast<double>(loop.scale[c]);
            const auto at = static_cast<std::size_t>(part.packed(n, c));
            center[at] = mean;
            factor[at] = static_cast<float>(slope);
            // What rounding the mean to a float lost goes into the offset.
            const double lost = m.mean - static_cast<double>(mean);
            offset[at] = static_cast<float>(static_cast<double>(loop.shift[c]) - lost * slope);
          }
        loop.y = slice(my, first, count);
        loop.center = center.data();
        loop.factor = factor.data();
        loop.offset = offset.data();
        table_->norm_apply(loop);
      });
}

void CpuLoops::norm_backward(const NormArgs& args, const Tensor& dy, const Tensor& x, const NormTensors& t,
                             const Tensor& dx) const {
  if (x.numel() == 0) return;
  const Matrix mx = float_matrix(x), mdy = float_matrix(dy), mdx = float_matrix(dx);
  loop_views::for_channels(
      mx.channels, loop_views::kNarrowChannels, [&](std::int64_t first, std::int64_t count) {
        const ChannelPart part{x.shape().batch(), mx.channels, first, count};
        NormLoop loop = norm_loop(args, t, part, mx);
        loop.dy = slice(mdy, first, count);
        loop.y = slice(mdx, first, count);
        const auto partial = loop_views::scratch<double>(loop_views::count(loop.chunks) * 2 * count);
        loop.partial = partial.get();
        std::vector<float> center = part.values(), inv_std = part.values(), factor = part.values();
        for (std::int64_t n = 0; n < part.samples; ++n)
          for (std::int64_t c = 0; c < count; ++c) {
            const auto at = static_cast<std::size_t>(part.packed(n, c));
            center[at] = t.mean.data<float>()[part.whole(n, c)];
            inv_std[at] = t.inv_std.data<float>()[part.whole(n, c)];
            factor[at] = inv_std[at] * loop.scale[c];
          }
        loop.center = center.data();
        loop.inv_std = inv_std.data();
        loop.factor = factor.data();
        table_->norm_backward_sums(loop);
        std::vector<float> mean_g = part.values(), mean_gx = part.values();
        for (std::int64_t c = 0; c < count; ++c) {
          Sums batch;
          for (std::int64_t n = 0; n < part.samples; ++n) {
            const Sums s = summed(loop, part, n, c);
            const auto at = static_cast<std::size_t>(part.packed(n, c));
            const double rows = static_cast<double>(loop.chunks.rows_per_sample);
            mean_g[at] = static_cast<float>(s.g / rows);
            mean_gx[at] = static_cast<float>(s.gx / rows);
            batch.g += s.g;
            batch.gx += s.gx;
          }
          t.dshift.data<float>()[first + c] += static_cast<float>(batch.g);
          t.dscale.data<float>()[first + c] += static_cast<float>(batch.gx);
        }
        loop.mean_g = mean_g.data();
        loop.mean_gx = mean_gx.data();
        table_->norm_backward_apply(loop);
      });
}

}  // namespace tandem

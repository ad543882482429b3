// Normalisation: chunks' moments merged in double, the per-channel coefficients of the level's loops.
#include <cmath>
#include <utility>
#include <vector>

#include "core/backends/cpu/cpu_loops.h"
#include "core/backends/cpu/loop_views.h"

namespace tandem {
namespace {

using loop_views::float_matrix, loop_views::slice;

// The runs of rows and groups of channels that share statistics: the shape of `mean`.
struct NormGroups {
  explicit NormGroups(const Tensor& mean, std::int64_t channel_count)
      : runs(mean.shape()[0]), groups(mean.shape()[1]), channels(channel_count) {}
  std::size_t of(std::int64_t run, std::int64_t c) const {
    return static_cast<std::size_t>(run * groups + c * groups / channels);
  }
  std::int64_t size() const { return runs * groups; }
  bool is_per_channel() const { return groups == channels; }
  bool is_per_row(std::int64_t rows) const { return groups == 1 && runs == rows; }
  std::int64_t runs, groups, channels;
};

struct Moments {
  double mean = 0, deviation = 0, rows = 0;

  // Chan et al. 1979.
  void merge(const Moments& other) {
    const double total = rows + other.rows, delta = other.mean - mean;
    mean += delta * (other.rows / total);
    deviation += other.deviation + delta * delta * (rows * (other.rows / total));
    rows = total;
  }
};

// Of g and g xhat.
struct Sums {
  double g = 0, gx = 0;

  void add(const Sums& other, double weight) {
    g += weight * other.g;
    gx += weight * other.gx;
  }
};

std::vector<float> per_channel(const NormLoop& loop, std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(loop.chunks.samples * count));
}

// The loop of channels [first, first + count), and room for its partial results.
struct NormPiece {
  NormPiece(const NormArgs& args, const NormTensors& t, const Matrix& x, std::int64_t begin,
            std::int64_t length)
      : first(begin), count(length) {
    loop.threads = compute_threads();
    loop.activation = args.activation;
    loop.params = {.a = args.slope};
    loop.chunks = loop_views::chunks_of(t.mean.shape()[0], x.rows, count);
    loop.x = slice(x, first, count);
    loop.scale = t.scale.data<float>() + first;
    loop.shift = t.shift.data<float>() + first;
    partial = loop_views::scratch<double>(loop_views::count(loop.chunks) * 2 * count);
    loop.partial = partial.get();
  }
  // The two partial values of chunk `chunk` of `run`, each [count].
  const double* values(std::int64_t run, std::int64_t chunk) const {
    return loop.partial + (run * loop.chunks.per_sample + chunk) * 2 * count;
  }
  std::size_t at(std::int64_t run, std::int64_t c) const { return static_cast<std::size_t>(run * count + c); }

  std::int64_t first, count;
  NormLoop loop{};
  std::unique_ptr<double[]> partial;
};

// Moments of channel c of a run over all chunks.
Moments merged(const NormPiece& piece, std::int64_t run, std::int64_t c) {
  Moments all;
  const Chunks& chunks = piece.loop.chunks;
  for (std::int64_t chunk = 0; chunk < chunks.per_sample; ++chunk) {
    const double* values = piece.values(run, chunk);
    const std::int64_t left = chunks.rows_per_sample - chunk * chunks.rows_per_chunk;
    all.merge(
        {values[c], values[piece.count + c], static_cast<double>(std::min(chunks.rows_per_chunk, left))});
  }
  return all;
}

Sums summed(const NormPiece& piece, std::int64_t run, std::int64_t c) {
  Sums all;
  for (std::int64_t chunk = 0; chunk < piece.loop.chunks.per_sample; ++chunk) {
    const double* values = piece.values(run, chunk);
    all.g += values[c];
    all.gx += values[piece.count + c];
  }
  return all;
}

// Calls body(piece) for pieces of at most kNarrowChannels channels.
template <class Body>
void for_pieces(const NormArgs& args, const NormTensors& t, const Matrix& x, const Body& body) {
  loop_views::for_channels(x.channels, loop_views::kNarrowChannels,
                           [&](std::int64_t first, std::int64_t count) {
                             NormPiece piece(args, t, x, first, count);
                             body(piece);
                           });
}

// Writes mean, inv_std and, where there is one, variance; returns the means in double.
std::vector<double> write_statistics(const LoopTable& table, const NormArgs& args, const Tensor& x,
                                     const NormTensors& t, const NormGroups& groups) {
  std::vector<double> means(static_cast<std::size_t>(groups.size()));
  std::vector<Moments> moments(args.fixed ? 0 : means.size());
  if (!args.fixed)
    for_pieces(args, t, float_matrix(x), [&](NormPiece& piece) {
      table.norm_statistics(piece.loop);
      for (std::int64_t run = 0; run < groups.runs; ++run)
        for (std::int64_t c = 0; c < piece.count; ++c)
          moments[groups.of(run, piece.first + c)].merge(merged(piece, run, c));
    });
  float *mean = t.mean.data<float>(), *inv_std = t.inv_std.data<float>();
  float* kept = t.variance.defined() ? t.variance.data<float>() : nullptr;
  for (std::size_t i = 0; i < means.size(); ++i) {
    const double variance =
        args.fixed ? static_cast<double>(kept[i]) : moments[i].deviation / moments[i].rows;
    means[i] = args.fixed ? static_cast<double>(mean[i]) : moments[i].mean;
    if (!args.fixed) mean[i] = static_cast<float>(means[i]);
    if (!args.fixed && kept != nullptr) kept[i] = static_cast<float>(variance);
    inv_std[i] = static_cast<float>(1 / std::sqrt(variance + args.eps));
  }
  return means;
}

// The constants of the backward passes per run and channel of a piece.
struct BackwardValues {
  BackwardValues(NormPiece& piece, const NormGroups& groups, const NormTensors& t)
      : center(per_channel(piece.loop, piece.count)), inv_std(center), factor(center) {
    for (std::int64_t run = 0; run < groups.runs; ++run)
      for (std::int64_t c = 0; c < piece.count; ++c) {
        const std::size_t at = piece.at(run, c), group = groups.of(run, piece.first + c);
        center[at] = t.mean.data<float>()[group];
        inv_std[at] = t.inv_std.data<float>()[group];
        factor[at] = inv_std[at] * piece.loop.scale[c];
      }
    piece.loop.center = center.data();
    piece.loop.inv_std = inv_std.data();
    piece.loop.factor = factor.data();
  }
  std::vector<float> center, inv_std, factor;
};

// What the gradient of the statistics subtracts from g * factor: constant + xhat * linear.
void subtracted(const NormArgs& args, const NormPiece& piece, const NormGroups& groups,
                const std::vector<Sums>& sums, std::pair<std::vector<float>&, std::vector<float>&> result) {
  if (args.fixed) return;
  const double rows = static_cast<double>(piece.loop.chunks.rows_per_sample);
  const double count = rows * static_cast<double>(groups.channels / groups.groups);
  for (std::int64_t run = 0; run < groups.runs; ++run)
    for (std::int64_t c = 0; c < piece.count; ++c) {
      const std::size_t at = piece.at(run, c);
      const Sums& s = sums[groups.of(run, piece.first + c)];
      // Of a single channel the sums lack its scale: with the factor of g itself equal terms cancel exactly.
      const float by = groups.is_per_channel() ? piece.loop.factor[at] : piece.loop.inv_std[at];
      result.first[at] = by * static_cast<float>(s.g / count);
      result.second[at] = by * static_cast<float>(s.gx / count);
    }
}

}  // namespace

void CpuLoops::norm_forward(const NormArgs& args, const Tensor& x, const NormTensors& t,
                            const Tensor& y) const {
  if (x.numel() == 0) return;
  const NormGroups groups(t.mean, x.channels());
  if (!args.fixed && groups.is_per_row(x.rows())) return layer_norm_forward(args, x, t, y);
  const std::vector<double> means = write_statistics(*table_, args, x, t, groups);
  const Matrix my = float_matrix(y);
  for_pieces(args, t, float_matrix(x), [&](NormPiece& piece) {
    NormLoop& loop = piece.loop;
    std::vector<float> center = per_channel(loop, piece.count), factor = center, offset = center;
    for (std::int64_t run = 0; run < groups.runs; ++run)
      for (std::int64_t c = 0; c < piece.count; ++c) {
        const std::size_t at = piece.at(run, c), group = groups.of(run, piece.first + c);
        const double slope =
            static_cast<double>(t.inv_std.data<float>()[group]) * static_cast<double>(loop.scale[c]);
        center[at] = static_cast<float>(means[group]);
        factor[at] = static_cast<float>(slope);
        // What rounding the mean to a float lost goes into the offset.
        const double lost = means[group] - static_cast<double>(center[at]);
        offset[at] = static_cast<float>(static_cast<double>(loop.shift[c]) - lost * slope);
      }
    loop.y = slice(my, piece.first, piece.count);
    loop.center = center.data();
    loop.factor = factor.data();
    loop.offset = offset.data();
    table_->norm_apply(loop);
  });
}

void CpuLoops::norm_backward(const NormArgs& args, const Tensor& dy, const Tensor& x, const NormTensors& t,
                             const Tensor& dx) const {
  if (x.numel() == 0) return;
  const NormGroups groups(t.mean, x.channels());
  if (!args.fixed && groups.is_per_row(x.rows())) return layer_norm_backward(args, dy, x, t, dx);
  const Matrix mdy = float_matrix(dy), mdx = float_matrix(dx);
  std::vector<Sums> sums(static_cast<std::size_t>(groups.size()));
  for_pieces(args, t, float_matrix(x), [&](NormPiece& piece) {
    const BackwardValues values(piece, groups, t);
    piece.loop.dy = slice(mdy, piece.first, piece.count);
    table_->norm_backward_sums(piece.loop);
    for (std::int64_t c = 0; c < piece.count; ++c) {
      const double weight = groups.is_per_channel() ? 1 : static_cast<double>(piece.loop.scale[c]);
      Sums all;
      for (std::int64_t run = 0; run < groups.runs; ++run) {
        const Sums s = summed(piece, run, c);
        sums[groups.of(run, piece.first + c)].add(s, weight);
        all.add(s, 1);
      }
      t.dshift.data<float>()[piece.first + c] += static_cast<float>(all.g);
      t.dscale.data<float>()[piece.first + c] += static_cast<float>(all.gx);
    }
  });
  for_pieces(args, t, float_matrix(x), [&](NormPiece& piece) {
    const BackwardValues values(piece, groups, t);
    std::vector<float> constant = per_channel(piece.loop, piece.count), linear = constant;
    subtracted(args, piece, groups, sums, {constant, linear});
    piece.loop.dy = slice(mdy, piece.first, piece.count);
    piece.loop.y = slice(mdx, piece.first, piece.count);
    piece.loop.constant = constant.data();
    piece.loop.linear = linear.data();
    table_->norm_backward_apply(piece.loop);
  });
}

}  // namespace tandem

// Loops over planes of one channel.
#include "data/intensity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/kernels/math.h"

namespace tandem {
namespace {

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

struct Range {
  float low = 0, high = 0;
};
Range range_of(std::span<const float> values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

struct Moments {
  double mean = 0, deviation = 0;
};
Moments moments_of(std::span<const float> values) {
  double sum = 0, squares = 0;
  for (const float value : values) sum += static_cast<double>(value);
  const auto n = static_cast<double>(values.size());
  const double mean = sum / n;
  for (const float value : values)
    squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  return {mean, std::sqrt(squares / n)};
}

// Index of a voxel beyond the edge: d c b a | a b c d | d c b a.
std::int64_t mirrored(std::int64_t i, std::int64_t n) {
  const std::int64_t period = 2 * n, at = ((i % period) + period) % period;
  return at < n ? at : period - 1 - at;
}

// One axis of values [outer, n, inner].
void blur_axis(std::span<float> values, std::int64_t n, std::int64_t inner, std::span<const float> weights) {
  const auto radius = static_cast<std::int64_t>(weights.size()) / 2;
  const std::int64_t line = n * inner;
  std::vector<float> padded(as_size((n + 2 * radius) * inner));
  for (auto begin = values.begin(); begin != values.end(); begin += line) {
    for (std::int64_t i = -radius; i < n + radius; ++i)
      std::copy_n(begin + mirrored(i, n) * inner, inner, padded.begin() + (i + radius) * inner);
    std::fill_n(begin, line, 0.0f);
    float* const out = &*begin;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const float weight = weights[k];
      const float* const in = padded.data() + static_cast<std::int64_t>(k) * inner;
      for (std::int64_t i = 0; i < line; ++i) out[i] += weight * in[i];
    }
  }
}

// How a voxel reads from the shrunken axis: two voxels and the weight of the second.
struct Stretch {
  std::int64_t low = 0, high = 0;
  float part = 0;
};
std::vector<Stretch> stretch_table(std::int64_t size, std::int64_t small) {
  std::vector<Stretch> table(as_size(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const double at = std::max(
        0.0, (static_cast<double>(i) + 0.5) * static_cast<double>(small) / static_cast<double>(size) - 0.5);
    const auto low = std::min<std::int64_t>(static_cast<std::int64_t>(at), small - 1);
    table[as_size(i)] = {low, std::min(low + 1, small - 1),
                         static_cast<float>(at - static_cast<double>(low))};
  }
  return table;
}

}  // namespace

void blur_values(std::span<float> values, const Index3& size, double sigma) {
  const auto radius = static_cast<std::int64_t>(4 * sigma + 0.5);
  std::vector<float> weights;
  double sum = 0;
  for (std::int64_t i = -radius; i <= radius; ++i)
    sum += std::exp(-0.5 * static_cast<double>(i * i) / (sigma * sigma));
  for (std::int64_t i = -radius; i <= radius; ++i)
    weights.push_back(
        static_cast<float>(std::exp(-0.5 * static_cast<double>(i * i) / (sigma * sigma)) / sum));
  blur_axis(values, size[0], size[1] * size[2], weights);
  blur_axis(values, size[1], size[2], weights);
  blur_axis(values, size[2], 1, weights);
}

void change_contrast(std::span<float> values, double factor) {
  const Range range = range_of(values);
  const auto mean = static_cast<float>(moments_of(values).mean), f = static_cast<float>(factor);
  for (float& value : values) {
    const float changed = (value - mean) * f + mean;
    value = changed < range.low ? range.low : changed > range.high ? range.high : changed;
  }
}

void lower_resolution(std::span<float> values, const Index3& size, const std::array<double, 3>& zoom) {
  Index3 small;
  for (std::size_t a = 0; a < 3; ++a)
    small[a] = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::nearbyint(zoom[a] * static_cast<double>(size[a]))));
  std::vector<float> shrunk;
  shrunk.reserve(as_size(voxel_count(small)));
  const auto nearest = [&](std::size_t a, std::int64_t i) { return (2 * i + 1) * size[a] / (2 * small[a]); };
  for (std::int64_t z = 0; z < small[0]; ++z)
    for (std::int64_t y = 0; y < small[1]; ++y)
      for (std::int64_t x = 0; x < small[2]; ++x)
        shrunk.push_back(
            values[as_size((nearest(0, z) * size[1] + nearest(1, y)) * size[2] + nearest(2, x))]);
  const std::vector<Stretch> zs = stretch_table(size[0], small[0]), ys = stretch_table(size[1], small[1]),
                             xs = stretch_table(size[2], small[2]);
  std::vector<float> row(as_size(small[2]));
  auto out = values.begin();
  for (const Stretch& z : zs)
    for (const Stretch& y : ys) {
      const auto at = [&](std::int64_t zi, std::int64_t yi) {
        return shrunk.data() + (zi * small[1] + yi) * small[2];
      };
      const float *a = at(z.low, y.low), *b = at(z.low, y.high), *c = at(z.high, y.low),
                  *d = at(z.high, y.high);
      for (std::size_t x = 0; x < row.size(); ++x)
        row[x] = (1 - z.part) * ((1 - y.part) * a[x] + y.part * b[x]) +
                 z.part * ((1 - y.part) * c[x] + y.part * d[x]);
      for (const Stretch& x : xs) *out++ = (1 - x.part) * row[as_size(x.low)] + x.part * row[as_size(x.high)];
    }
}

void change_gamma(std::span<float> values, double gamma, bool inverted) {
  const float sign = inverted ? -1.0f : 1.0f;
  const Range range = range_of(values);
  const float width = range.high - range.low, low = inverted ? -range.high : range.low;
  if (!(width > 0)) return;
  const Moments before = moments_of(values);
  const float scale = 1 / width, power = static_cast<float>(gamma);
  for (float& value : values) {
    const float part = (sign * value - low) * scale;
    value = sign * (kernels::exp(power * kernels::log(part < 0 ? 0.0f : part)) * width + low);
  }
  const Moments after = moments_of(values);
  const double factor = before.deviation / std::max(after.deviation, 1e-7);
  const auto f = static_cast<float>(factor), shift = static_cast<float>(before.mean - after.mean * factor);
  for (float& value : values) value = value * f + shift;
}

}  // namespace tandem

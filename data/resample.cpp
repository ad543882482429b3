// Separable interpolation, axis by axis.
#include "data/resample.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace tandem {
namespace {

constexpr double kAnisotropy = 3;
constexpr std::int64_t kLines = 32;  // lines filtered together
constexpr std::int64_t kPad = 12;    // edge voxels before the spline filter: its memory is 0.268 per voxel

std::size_t as_size(std::int64_t n) { return static_cast<std::size_t>(n); }

// Where output voxel `i` reads.
double read_position(std::int64_t i, std::int64_t from, std::int64_t to) {
  return (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
}

std::int64_t nearest_index(std::int64_t i, std::int64_t from, std::int64_t to) {
  const auto index = static_cast<std::int64_t>(std::floor(read_position(i, from, to) + 0.5));
  return std::clamp<std::int64_t>(index, 0, from - 1);
}

// Weights of neighbouring voxels (of spline coefficients for order 3) of one output voxel.
struct Taps {
  std::array<std::int64_t, 4> index{};
  std::array<double, 4> weight{};
};

std::vector<Taps> make_taps(std::int64_t from, std::int64_t to, int order, std::int64_t pad) {
  std::vector<Taps> taps(as_size(to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double x = read_position(i, from, to), base = std::floor(x), t = x - base, u = 1 - t;
    Taps& tap = taps[as_size(i)];
    if (order == 3)
      tap.weight = {u * u * u / 6, (4 - 6 * t * t + 3 * t * t * t) / 6, (4 - 6 * u * u + 3 * u * u * u) / 6,
                    t * t * t / 6};
    else
      tap.weight = {0, u, t, 0};
    for (std::int64_t k = 0; k < 4; ++k)
      tap.index[as_size(k)] =
          std::clamp<std::int64_t>(static_cast<std::int64_t>(base) - 1 + k + pad, 0, from + 2 * pad - 1);
  }
  return taps;
}

// Spline coefficients in place (Unser 1999: pole sqrt(3) - 2, mirrored ends); lines [n, kLines].
void spline_filter(std::vector<double>& line, std::int64_t n) {
  const double pole = std::sqrt(3.0) - 2;
  const auto row = [&](std::int64_t i) { return line.data() + i * kLines; };
  std::array<double, kLines> start{};
  double power = 1;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(n, 40); ++i, power *= pole)
    for (std::int64_t l = 0; l < kLines; ++l) start[as_size(l)] += power * row(i)[l];
  std::copy(start.begin(), start.end(), row(0));
  for (std::int64_t i = 1; i < n; ++i)
    for (std::int64_t l = 0; l < kLines; ++l) row(i)[l] += pole * row(i - 1)[l];
  for (std::int64_t l = 0; l < kLines; ++l)
    row(n - 1)[l] = pole / (pole * pole - 1) * (row(n - 1)[l] + pole * row(n - 2)[l]);
  for (std::int64_t i = n - 2; i >= 0; --i)
    for (std::int64_t l = 0; l < kLines; ++l) row(i)[l] = pole * (row(i + 1)[l] - row(i)[l]);
  for (double& value : line) value *= 6;
}

// One axis of values [outer, from, inner] -> [outer, to, inner].
struct AxisShape {
  std::int64_t outer = 1, from = 1, to = 1, inner = 1;
};

std::vector<float> resample_axis(std::span<const float> values, const AxisShape& shape, int order) {
  const std::int64_t pad = order == 3 ? kPad : 0, padded = shape.from + 2 * pad,
                     lines = shape.outer * shape.inner;
  const std::vector<Taps> taps = make_taps(shape.from, shape.to, order, pad);
  std::vector<float> result(as_size(lines * shape.to));
  std::vector<double> block(as_size(padded * kLines));
  std::array<std::int64_t, kLines> source{}, target{};
  for (std::int64_t first = 0; first < lines; first += kLines) {
    const std::int64_t count = std::min(kLines, lines - first);
    for (std::int64_t l = 0; l < count; ++l) {
      const std::int64_t o = (first + l) / shape.inner, i = (first + l) % shape.inner;
      source[as_size(l)] = o * shape.from * shape.inner + i;
      target[as_size(l)] = o * shape.to * shape.inner + i;
    }
    for (std::int64_t i = 0; i < padded; ++i) {
      const std::int64_t at = std::clamp<std::int64_t>(i - pad, 0, shape.from - 1) * shape.inner;
      for (std::int64_t l = 0; l < count; ++l)
        block[as_size(i * kLines + l)] = values[as_size(source[as_size(l)] + at)];
    }
    if (order == 3) spline_filter(block, padded);
    for (std::int64_t i = 0; i < shape.to; ++i) {
      const Taps& tap = taps[as_size(i)];
      std::array<double, kLines> sum{};
      for (std::size_t k = 0; k < 4; ++k) {
        const double* row = block.data() + tap.index[k] * kLines;
        for (std::int64_t l = 0; l < kLines; ++l) sum[as_size(l)] += tap.weight[k] * row[l];
      }
      for (std::int64_t l = 0; l < count; ++l)
        result[as_size(target[as_size(l)] + i * shape.inner)] = static_cast<float>(sum[as_size(l)]);
    }
  }
  return result;
}

// All axes whose size changes, and the limit to the input's range.
std::vector<float> resample_all(std::vector<float> values, const Index3& from, const Index3& to,
                                std::int64_t depth, int order) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const float least = *low, most = *high;
  Index3 shape = from;
  for (std::size_t a = 0; a < 3; ++a) {
    if (shape[a] == to[a]) continue;
    AxisShape axis{.from = shape[a], .to = to[a], .inner = depth};
    for (std::size_t b = 0; b < 3; ++b) (b < a ? axis.outer : axis.inner) *= b == a ? 1 : shape[b];
    values = resample_axis(values, axis, order);
    shape[a] = to[a];
  }
  if (order == 3)
    for (float& value : values) value = std::clamp(value, least, most);
  return values;
}

// Slice `i` along `axis` of values [shape, depth].
std::vector<float> slice_of(std::span<const float> values, const Index3& shape, std::int64_t depth, int axis,
                            std::int64_t i) {
  std::int64_t outer = 1, inner = depth;
  for (int a = 0; a < 3; ++a) (a < axis ? outer : inner) *= a == axis ? 1 : shape[as_size(a)];
  std::vector<float> slice;
  slice.reserve(as_size(outer * inner));
  for (std::int64_t o = 0; o < outer; ++o) {
    const auto begin = values.begin() + (o * shape[as_size(axis)] + i) * inner;
    slice.insert(slice.end(), begin, begin + inner);
  }
  return slice;
}

// The reverse: puts a slice at place `i`.
void put_slice(std::span<const float> slice, std::span<float> values, const Index3& shape, std::int64_t depth,
               std::pair<int, std::int64_t> place) {
  const auto [axis, i] = place;
  std::int64_t outer = 1, inner = depth;
  for (int a = 0; a < 3; ++a) (a < axis ? outer : inner) *= a == axis ? 1 : shape[as_size(a)];
  for (std::int64_t o = 0; o < outer; ++o)
    std::copy_n(slice.begin() + o * inner, inner, values.begin() + (o * shape[as_size(axis)] + i) * inner);
}

bool same_spacing(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

bool is_anisotropic(const Spacing& spacing) {
  return *std::max_element(spacing.begin(), spacing.end()) >
         kAnisotropy * *std::min_element(spacing.begin(), spacing.end());
}

// The class of the eight neighbours that holds half of the weight or more; the higher of two, 0 if there is
// none.
std::uint8_t vote(const std::array<std::uint8_t, 8>& classes, const std::array<double, 8>& weights) {
  if (std::all_of(classes.begin(), classes.end(), [&](std::uint8_t c) { return c == classes[0]; }))
    return classes[0];
  int winner = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    double sum = 0;
    for (std::size_t k = 0; k < 8; ++k)
      if (classes[k] == classes[i]) sum += weights[k];
    if (sum >= 0.5) winner = std::max<int>(winner, classes[i]);
  }
  return static_cast<std::uint8_t>(winner);
}

}  // namespace

Index3 resampled_shape(const Index3& shape, const Spacing& from_mm, const Spacing& to_mm) {
  Index3 result;
  for (std::size_t a = 0; a < 3; ++a)
    result[a] = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::nearbyint(from_mm[a] / to_mm[a] * static_cast<double>(shape[a]))));
  return result;
}

std::optional<int> separate_axis(const Spacing& from_mm, const Spacing& to_mm) {
  const bool from_long = is_anisotropic(from_mm);
  if (!from_long && !is_anisotropic(to_mm)) return std::nullopt;
  const Spacing& spacing = from_long ? from_mm : to_mm;
  const double longest = *std::max_element(spacing.begin(), spacing.end());
  std::optional<int> axis;
  for (int a = 0; a < 3; ++a) {
    if (!same_spacing(spacing[as_size(a)], longest)) continue;
    if (axis) return std::nullopt;
    axis = a;
  }
  return axis;
}

std::vector<LinearPair> linear_pairs(std::int64_t from, std::int64_t to, bool nearest) {
  std::vector<LinearPair> pairs(as_size(to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double x = read_position(i, from, to), base = std::floor(x);
    const auto low = static_cast<std::int64_t>(base);
    if (nearest || from == to)
      pairs[as_size(i)] = {{nearest_index(i, from, to), 0}, {1, 0}};
    else
      pairs[as_size(i)] = {
          {std::clamp<std::int64_t>(low, 0, from - 1), std::clamp<std::int64_t>(low + 1, 0, from - 1)},
          {1 - (x - base), x - base}};
  }
  return pairs;
}

std::vector<float> resample_values(std::span<const float> values, const ResamplePlan& plan,
                                   std::int64_t depth, int order) {
  check_internal(values.size() == as_size(voxel_count(plan.from) * depth) && (order == 1 || order == 3),
                 "resample_values: sizes or order");
  if (plan.from == plan.to) return {values.begin(), values.end()};
  if (!plan.separate) return resample_all({values.begin(), values.end()}, plan.from, plan.to, depth, order);
  const int axis = *plan.separate;
  const auto a = as_size(axis);
  Index3 from = plan.from, to = plan.to;
  from[a] = to[a] = 1;
  std::vector<float> result(as_size(voxel_count(plan.to) * depth)), slice;
  std::int64_t done = -1;
  for (std::int64_t i = 0; i < plan.to[a]; ++i) {
    const std::int64_t nearest = nearest_index(i, plan.from[a], plan.to[a]);
    if (nearest != done)
      slice = resample_all(slice_of(values, plan.from, depth, axis, nearest), from, to, depth, order);
    done = nearest;
    put_slice(slice, result, plan.to, depth, {axis, i});
  }
  return result;
}

std::vector<std::uint8_t> resample_classes(std::span<const std::uint8_t> classes, const ResamplePlan& plan) {
  check_internal(classes.size() == as_size(voxel_count(plan.from)), "resample_classes: sizes");
  std::array<std::vector<LinearPair>, 3> pairs;
  for (std::size_t a = 0; a < 3; ++a)
    pairs[a] = linear_pairs(plan.from[a], plan.to[a], plan.separate == static_cast<int>(a));
  std::vector<std::uint8_t> result;
  result.reserve(as_size(voxel_count(plan.to)));
  std::array<std::uint8_t, 8> found{};
  std::array<double, 8> weights{};
  for (const LinearPair& z : pairs[0])
    for (const LinearPair& y : pairs[1])
      for (const LinearPair& x : pairs[2]) {
        for (std::size_t k = 0; k < 8; ++k) {
          const std::size_t i = k >> 2, j = (k >> 1) & 1, l = k & 1;
          found[k] = classes[as_size((z.index[i] * plan.from[1] + y.index[j]) * plan.from[2] + x.index[l])];
          weights[k] = z.weight[i] * y.weight[j] * x.weight[l];
        }
        result.push_back(vote(found, weights));
      }
  return result;
}

}  // namespace tandem

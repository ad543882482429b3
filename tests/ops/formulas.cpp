// Direct loops over logical indices.
#include "tests/ops/formulas.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace tandem::testing {
namespace {

using Index = std::array<std::int64_t, 3>;

// Position of (n, c, voxel) in the logical order of `shape`; -1 outside.
std::int64_t at(const Shape& shape, std::int64_t n, std::int64_t c, const Index& v) {
  const Index size = shape.spatial();
  for (std::size_t a = 0; a < 3; ++a)
    if (v[a] < 0 || v[a] >= size[a]) return -1;
  return (((n * shape[1] + c) * size[0] + v[0]) * size[1] + v[1]) * size[2] + v[2];
}

std::vector<Index> voxels(const Index& size) {
  std::vector<Index> all;
  for (std::int64_t i = 0; i < size[0] * size[1] * size[2]; ++i)
    all.push_back({i / (size[1] * size[2]), i / size[2] % size[1], i % size[2]});
  return all;
}

Index window_voxel(const Index& o, const Index& t, const WindowOptions& options) {
  Index i{};
  for (std::size_t a = 0; a < 3; ++a)
    i[a] = o[a] * options.stride[a] - options.padding[a] + t[a] * options.dilation[a];
  return i;
}

double& element(Values& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
double element(const Values& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }

}  // namespace

Values conv_formula(const Shape& x_shape, const Shape& w_shape, const InputValues& operands,
                    const Shape& y_shape, const WindowOptions& options) {
  Values y;
  const std::int64_t per_group = w_shape[0] / options.groups;
  for (std::int64_t n = 0; n < y_shape[0]; ++n)
    for (std::int64_t k = 0; k < y_shape[1]; ++k)
      for (const Index& o : voxels(y_shape.spatial())) {
        double sum = operands.size() > 2 ? element(operands[2], k) : 0;
        for (std::int64_t c = 0; c < w_shape[1]; ++c)
          for (const Index& t : voxels(w_shape.spatial())) {
            const std::int64_t i =
                at(x_shape, n, k / per_group * w_shape[1] + c, window_voxel(o, t, options));
            if (i >= 0) sum += element(operands[0], i) * element(operands[1], at(w_shape, k, c, t));
          }
        y.push_back(sum);
      }
  return y;
}

Values conv_transpose_formula(const Shape& x_shape, const Shape& w_shape, const InputValues& operands,
                              const Shape& y_shape, const WindowOptions& options) {
  Values y(static_cast<std::size_t>(y_shape.numel()));
  const std::int64_t in_per_group = w_shape[0] / options.groups;
  for (std::int64_t n = 0; n < x_shape[0]; ++n)
    for (std::int64_t c = 0; c < x_shape[1]; ++c)
      for (const Index& i : voxels(x_shape.spatial()))
        for (std::int64_t k = 0; k < w_shape[1]; ++k)
          for (const Index& t : voxels(w_shape.spatial())) {
            const std::int64_t o =
                at(y_shape, n, c / in_per_group * w_shape[1] + k, window_voxel(i, t, options));
            if (o < 0) continue;
            element(y, o) +=
                element(operands[0], at(x_shape, n, c, i)) * element(operands[1], at(w_shape, c, k, t));
          }
  const std::int64_t count = y_shape.spatial_numel();
  if (operands.size() > 2)
    for (std::int64_t i = 0; i < y_shape.numel(); ++i)
      element(y, i) += element(operands[2], i / count % y_shape[1]);
  return y;
}

Values matmul_formula(const InputValues& operands, std::int64_t m, std::int64_t k, std::int64_t n,
                      bool transposed) {
  Values c;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = operands.size() > 2 ? element(operands[2], j) : 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += element(operands[0], i * k + l) * element(operands[1], transposed ? j * k + l : l * n + j);
      c.push_back(sum);
    }
  return c;
}

Values norm_formula(const Shape& shape, const InputValues& operands, const NormKey& key) {
  struct Group {
    double count = 0, sum = 0, squares = 0;
  };
  std::map<std::int64_t, Group> groups;
  const std::int64_t channels = shape[1], count = shape.spatial_numel();
  const auto key_of = [&](std::int64_t i) {
    return key(i / count / channels, i / count % channels, i % count);
  };
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    Group& group = groups[key_of(i)];
    group.count += 1;
    group.sum += element(operands[0], i);
    group.squares += std::pow(element(operands[0], i), 2);
  }
  Values y;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const Group& group = groups[key_of(i)];
    const double mean = group.sum / group.count;
    const double variance = std::max(0.0, group.squares / group.count - mean * mean);
    y.push_back((element(operands[0], i) - mean) / std::sqrt(variance + 1e-5) *
                    element(operands[1], i / count % channels) +
                element(operands[2], i / count % channels));
  }
  return y;
}

Values pool_formula(const Shape& shape, const Values& x, const Shape& y_shape, const Index& window,
                    const WindowOptions& options, bool max, bool count_padding) {
  Values y;
  for (std::int64_t n = 0; n < y_shape[0]; ++n)
    for (std::int64_t c = 0; c < y_shape[1]; ++c)
      for (const Index& o : voxels(y_shape.spatial())) {
        Values inside;
        for (const Index& t : voxels(window))
          if (const std::int64_t i = at(shape, n, c, window_voxel(o, t, options)); i >= 0)
            inside.push_back(element(x, i));
        double sum = 0;
        for (const double value : inside) sum += value;
        const auto taps = static_cast<double>(voxels(window).size());
        y.push_back(max ? *std::ranges::max_element(inside)
                        : sum / (count_padding ? taps : static_cast<double>(inside.size())));
      }
  return y;
}

Values softmax_formula(const Shape& shape, const Values& x) {
  Values y = x;
  const std::int64_t count = shape.spatial_numel(), classes = shape[1];
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const std::int64_t first = i / (classes * count) * classes * count + i % count;
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(element(x, first + c * count));
    element(y, i) = std::exp(element(x, i)) / sum;
  }
  return y;
}

namespace {

struct ClassSums {
  double intersection = 0, prediction = 0, truth = 0, nll = 0;
};

// Sums over the voxels of class c in samples first .. last - 1.
ClassSums class_sums(const Shape& shape, const Values& p, const Values& labels, const DiceCeOptions& options,
                     std::array<std::int64_t, 3> c_first_last) {
  const auto [c, first, last] = c_first_last;
  const std::int64_t count = shape.spatial_numel();
  const double share = options.label_smoothing / static_cast<double>(shape[1]);
  ClassSums sums;
  for (std::int64_t i = first * count; i < last * count; ++i) {
    const double label = element(labels, i);
    if (options.dice.ignore_label && label == *options.dice.ignore_label) continue;
    const double value = element(p, (i / count * shape[1] + c) * count + i % count);
    const double target = label == static_cast<double>(c) ? 1 : 0;
    sums.intersection += value * target;
    sums.prediction += options.dice.squared ? value * value : value;
    sums.truth += target;
    sums.nll -= ((1 - options.label_smoothing) * target + share) * std::log(value);
  }
  return sums;
}

}  // namespace

double dice_ce_formula(const Shape& shape, const Values& logits, const Values& labels,
                       const DiceCeOptions& options) {
  const Values p = softmax_formula(shape, logits);
  const std::int64_t batch = shape[0], each = options.dice.batch ? batch : 1;
  double nll = 0, valid = 0, dice = 0, terms = 0;
  for (std::int64_t first = 0; first < batch; first += each)
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      const ClassSums s = class_sums(shape, p, labels, options, {c, first, first + each});
      nll += s.nll;
      valid += s.truth;
      if (c == 0 && !options.dice.background) continue;
      dice += (2 * s.intersection + options.dice.smooth) /
              std::max(s.prediction + s.truth + options.dice.smooth, 1e-8);
      ++terms;
    }
  const double ce = options.ce_weight != 0 ? options.ce_weight * nll / valid : 0;
  return options.dice_weight != 0 ? ce - options.dice_weight * dice / terms : ce;
}

}  // namespace tandem::testing

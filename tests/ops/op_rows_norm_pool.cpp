// Rows of normalisation and pooling.
#include <algorithm>
#include <cmath>

#include "core/ops/norm.h"
#include "core/ops/pool.h"
#include "tests/ops/formulas.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

// A pre-activation nearer to the kink than this may change sides when rounded.
constexpr double kMargin = 0.01;

double activated(Activation activation, double slope, double z) {
  if (activation == Activation::kNone || z > 0) return z;
  return activation == Activation::kRelu ? 0.0 : slope * z;
}

OpRow norm_row(const std::string& variant, const Shape& shape, const InstanceNormOptions& options = {}) {
  OpRow row{.op = "instance_norm",
            .variant = variant,
            .inputs = {{.shape = shape},
                       {.shape = {shape[1]}, .kept = true, .gap = 0.5},
                       {.shape = {shape[1]}, .kept = true}}};
  row.build = [options](std::span<const Var> in) { return instance_norm(in[0], in[1], in[2], options); };
  row.forward_sum = shape.spatial_numel();
  row.backward_sum = std::max<std::int64_t>(1, shape[0]) * shape.spatial_numel();
  row.formula = [=](const InputValues& in) {
    Values y = instance_norm_formula(shape, in);
    for (double& z : y) z = activated(options.activation, options.slope, z);
    return y;
  };
  if (options.activation != Activation::kNone)
    row.accept = [shape](const InputValues& in) {
      return std::ranges::all_of(instance_norm_formula(shape, in),
                                 [](double z) { return std::abs(z) >= kMargin; });
    };
  return row;
}

struct PoolCase {
  std::string variant;
  Shape x, y;
  std::array<std::int64_t, 3> window, stride, padding{0, 0, 0};
};

OpRow pool_row(const PoolCase& c, bool max, bool count_padding) {
  OpRow row{.op = max ? "max_pool" : "avg_pool",
            .variant = c.variant + (max || count_padding ? "" : "Inside"),
            .inputs = {{.shape = c.x, .distinct = max}}};
  const PoolOptions options{
      .window = c.window, .stride = c.stride, .padding = c.padding, .count_padding = count_padding};
  row.build = [=](std::span<const Var> in) {
    return max ? max_pool(in[0], options) : avg_pool(in[0], options);
  };
  row.large = c.variant == "large";
  row.forward_sum = row.backward_sum = max ? 1 : c.window[0] * c.window[1] * c.window[2];
  row.formula = [=](const InputValues& in) {
    std::array<std::int64_t, 3> window = c.window;  // leading values of fewer dimensions are not read
    WindowOptions at{.stride = c.stride, .padding = c.padding};
    for (std::size_t i = 0; i < 3 - static_cast<std::size_t>(c.x.spatial_rank()); ++i) {
      window[i] = 1;
      at.padding[i] = 0;
    }
    return pool_formula(c.x, in[0], c.y, window, at, max, count_padding);
  };
  return row;
}

}  // namespace

std::vector<OpRow> norm_and_pool_rows() {
  std::vector<OpRow> rows;
  rows.push_back(norm_row("1d", {2, 3, 17}));
  rows.push_back(norm_row("2d", {1, 5, 7, 3}));
  rows.push_back(norm_row("3d", {2, 3, 3, 4, 5}));
  rows.push_back(norm_row("3dChannels33", {1, 33, 3, 3, 3}));
  rows.push_back(norm_row("oneVoxel", {2, 3, 1, 1, 1}));
  rows.push_back(norm_row("eps", {2, 3, 9}, {.eps = 0.1}));
  rows.back().formula = nullptr;  // the formula's eps is 1e-5
  rows.push_back(norm_row("relu", {1, 3, 17}, {.activation = Activation::kRelu}));
  rows.push_back(norm_row("leakyRelu", {2, 2, 3, 5}, {.activation = Activation::kLeakyRelu}));
  rows.push_back(
      norm_row("leakyRelu3d", {1, 3, 3, 2, 3}, {.activation = Activation::kLeakyRelu, .slope = 0.2}));
  rows.push_back(norm_row("emptyBatch", {0, 3, 4, 4}));
  rows.push_back(norm_row("large32", {2, 32, 13, 12, 17}));
  rows.back().large = true;
  rows.push_back(norm_row("large5", {1, 5, 20, 21, 33}));
  rows.back().large = true;

  const std::vector<PoolCase> pools{
      {"1d", {2, 3, 16}, {2, 3, 8}, {2, 2, 2}, {2, 2, 2}},
      {"2d", {1, 3, 7, 5}, {1, 3, 3, 2}, {2, 2, 2}, {2, 2, 2}},
      {"2dOverlap", {1, 3, 7, 5}, {1, 3, 4, 3}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}},
      {"3d", {1, 3, 4, 4, 4}, {1, 3, 2, 2, 2}, {2, 2, 2}, {2, 2, 2}},
      {"3dAnisotropic", {2, 1, 3, 4, 5}, {2, 1, 3, 2, 2}, {1, 2, 2}, {1, 2, 2}},
      {"3dPadded", {1, 2, 3, 3, 3}, {1, 2, 3, 3, 3}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}},
      {"3dChannels17", {1, 17, 2, 2, 2}, {1, 17, 1, 1, 1}, {2, 2, 2}, {2, 2, 2}},
      {"3dChannels33", {1, 33, 1, 3, 2}, {1, 33, 1, 1, 1}, {1, 3, 2}, {1, 1, 1}},
      {"oneVoxel", {1, 3, 1, 1, 1}, {1, 3, 1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
      {"large", {1, 20, 18, 16, 34}, {1, 20, 9, 8, 17}, {2, 2, 2}, {2, 2, 2}},
      {"emptyBatch", {0, 3, 4, 4}, {0, 3, 2, 2}, {2, 2, 2}, {2, 2, 2}}};
  for (const PoolCase& c : pools) {
    rows.push_back(pool_row(c, true, true));
    rows.push_back(pool_row(c, false, true));
    if (c.padding[2] > 0) rows.push_back(pool_row(c, false, false));
  }
  return rows;
}

}  // namespace tandem::testing

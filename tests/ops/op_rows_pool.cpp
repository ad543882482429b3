// Rows of pooling.
#include "core/ops/pool.h"
#include "tests/ops/formulas.h"
#include "tests/ops/op_table.h"

namespace tandem::testing {
namespace {

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

std::vector<OpRow> pool_rows() {
  std::vector<OpRow> rows;
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
      {"oneElement", {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
      {"emptyBatch", {0, 3, 4, 4}, {0, 3, 2, 2}, {2, 2, 2}, {2, 2, 2}}};
  for (const PoolCase& c : pools) {
    rows.push_back(pool_row(c, true, true));
    rows.push_back(pool_row(c, false, true));
    if (c.padding[2] > 0) rows.push_back(pool_row(c, false, false));
  }
  return rows;
}

}  // namespace tandem::testing
